import type { Logger } from '../log.ts';

/** The preferred session timeout. A killed member blocks its group for this time. */
const PREFERRED_MS = 2_000;
/** The minimum of brokers without configuration: the default of `group.min.session.timeout.ms`. */
const BROKER_MINIMUM_MS = 6_000;

/** The session timeout of a process: the shortest one that the brokers accept. */
export interface SessionTime {
  /** Milliseconds. */
  ms(): number;
  /** Notes that the brokers rejected this session timeout. Returns whether there is another one to try. */
  rejected(ms: number): boolean;
}

export function createSessionTime(logger: Logger): SessionTime {
  let current = PREFERRED_MS;
  return {
    ms: () => current,
    rejected(ms) {
      if (ms >= BROKER_MINIMUM_MS) return false;
      if (current < BROKER_MINIMUM_MS) {
        logger.warn(
          { preferredMs: PREFERRED_MS, sessionMs: BROKER_MINIMUM_MS },
          `Kafka rejected a session timeout of ${PREFERRED_MS} ms, using ${BROKER_MINIMUM_MS} ms: a killed listener blocks its group for that long; set group.min.session.timeout.ms=${PREFERRED_MS} on the brokers to change it`,
        );
      }
      current = BROKER_MINIMUM_MS;
      return true;
    },
  };
}

/** Whether brokers rejected the session timeout. */
export function isSessionRejection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('type' in error && error.type === 'INVALID_SESSION_TIMEOUT') return true;
  return isSessionRejection(error.cause);
}
