import type { Logger } from '../telemetry/log.ts';

/** The session timeout that a process prefers. When a member is killed, its group waits for this time. Milliseconds. */
const PREFERRED_MS = 2_000;
/** The session timeout that every broker accepts by default (`group.min.session.timeout.ms`). Milliseconds. */
const BROKER_MINIMUM_MS = 6_000;

/** The session timeout of a process: the shortest one that the brokers accept. */
export interface SessionTime {
  /** Milliseconds. */
  ms(): number;
  /** Notes that the brokers rejected this session timeout. Returns whether there is a longer one to try. */
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

/** Whether the error says that brokers rejected the session timeout. */
export function isSessionRejection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('type' in error && error.type === 'INVALID_SESSION_TIMEOUT') return true;
  return isSessionRejection(error.cause);
}
