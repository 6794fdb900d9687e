import type { Logger } from '../log.ts';

/** The preferred session timeout. A killed member blocks its group for that long. */
const WANTED_MS = 2_000;
/** The default minimum of brokers: the default of `group.min.session.timeout.ms`. */
const USUAL_MS = 6_000;

/** The session timeout of a process: the shortest one that the brokers accept. */
export interface SessionTime {
  /** Milliseconds. */
  ms(): number;
  /** The brokers rejected this session timeout. Returns whether there is another one to try. */
  refused(ms: number): boolean;
}

export function createSessionTime(logger: Logger): SessionTime {
  let current = WANTED_MS;
  return {
    ms: () => current,
    refused(ms) {
      if (ms >= USUAL_MS) return false;
      if (current < USUAL_MS) {
        logger.warn(
          { wantedMs: WANTED_MS, sessionMs: USUAL_MS },
          `Kafka rejected a session timeout of ${WANTED_MS} ms, using ${USUAL_MS} ms: a killed listener blocks its group for that long; set group.min.session.timeout.ms=${WANTED_MS} on the brokers to change it`,
        );
      }
      current = USUAL_MS;
      return true;
    },
  };
}

/** Whether brokers rejected the session timeout. */
export function isSessionRefusal(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('type' in error && error.type === 'INVALID_SESSION_TIMEOUT') return true;
  return isSessionRefusal(error.cause);
}
