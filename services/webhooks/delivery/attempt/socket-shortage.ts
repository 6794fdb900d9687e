import type { Logger } from '../../../platform/log.ts';
import { logSeldom } from '../../../platform/log-seldom.ts';
import type { OwnExhaustion } from '../../sender/failure.ts';

/** No delivery is read for this time, while attempts in flight end and free their sockets. Milliseconds. */
const PAUSE_MS = 500;
const LOG_EVERY_MS = 10_000;

/** Whether this process had no socket left a moment ago. */
export interface SocketShortage {
  isNow(): boolean;
  note(error: OwnExhaustion): void;
}

export function createSocketShortage(logger: Logger): SocketShortage {
  const seldom = logSeldom(LOG_EVERY_MS);
  let untilMs = 0;
  return {
    isNow: () => performance.now() < untilMs,
    note(error) {
      untilMs = performance.now() + PAUSE_MS;
      seldom((attempts) =>
        logger.error({ err: error, attempts }, 'no sockets left, deliveries delayed'),
      );
    },
  };
}
