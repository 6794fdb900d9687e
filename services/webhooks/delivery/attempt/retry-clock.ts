/**
 * The clock for retries, held deliveries and days of failures. It is the clock of the database plus an offset, which
 * only tests and the local stack change. Leases and `webhook-timestamp` use the real time.
 */
export interface RetryClock {
  /** How far the retry clock is ahead of the real time. Milliseconds. */
  offsetMs(): number;
  /** Moves the retry clock forward. @throws RangeError when `seconds` is negative or not finite. */
  advance(seconds: number): void;
}

export function createRetryClock(): RetryClock {
  let offset = 0;
  return {
    offsetMs: () => offset,
    advance(seconds) {
      if (!Number.isFinite(seconds) || seconds < 0) {
        throw new RangeError('the retry clock only moves forward');
      }
      offset += Math.round(seconds * 1_000);
    },
  };
}
