/**
 * The clock of retries, held deliveries and failing days: the database's clock plus an offset that only
 * tests and the local stack move. Leases and `webhook-timestamp` use real time.
 */
export interface RetryClock {
  /** The time by which the retry clock is ahead of real time. Milliseconds. */
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
