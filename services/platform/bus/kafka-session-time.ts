import type { Logger } from '../log.ts';

/** A member that was killed holds up its group for so long. */
const WANTED_MS = 2_000;
/** What brokers accept by default: the default of `group.min.session.timeout.ms`. */
const USUAL_MS = 6_000;

/** How long the sessions of a process last; found out by trying, and remembered. */
export interface SessionTime {
  /** Milliseconds. */
  ms(): number;
  /** The brokers refused a session of this length; says whether there is another to try. */
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
          `Kafka refuses sessions of ${WANTED_MS} ms: a listener that is killed is missed after ${USUAL_MS} ms; to change that set group.min.session.timeout.ms=${WANTED_MS} on its brokers`,
        );
      }
      current = USUAL_MS;
      return true;
    },
  };
}

/** Whether brokers refused the length of a session. */
export function isSessionRefusal(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('type' in error && error.type === 'INVALID_SESSION_TIMEOUT') return true;
  return isSessionRefusal(error.cause);
}
