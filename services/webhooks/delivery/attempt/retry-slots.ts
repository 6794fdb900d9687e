/** Maximum number of retries per second in this process, for endpoints that have just begun to fail. */
export const RETRIES_PER_SECOND = 50;

/** Pauses above this are not changed, because their jitter is large enough. Milliseconds. */
const MAX_PAUSE_MS = 400_000;
/**
 * Maximum time by which a retry is delayed. When all seconds until then are full, the retry gets a random one of them.
 * Milliseconds.
 */
const MAX_DELAY_MS = 300_000;
const SECOND_MS = 1_000;

export interface RetrySlots {
  /** Returns this pause, or a longer one that ends in the next second with a free slot. Milliseconds. */
  take(pauseMs: number): number;
}

/**
 * Spreads the retries of endpoints that begin to fail at the same time. Their jitter is only a few seconds, and
 * thousands of concurrent retries would delay all other deliveries.
 *
 * @param now a monotonic clock. Milliseconds.
 */
export function createRetrySlots(now: () => number = () => performance.now()): RetrySlots {
  const taken = new Map<number, number>();
  let deletedBefore = Number.NEGATIVE_INFINITY;

  function dropPast(second: number): void {
    if (second <= deletedBefore) return;
    deletedBefore = second;
    for (const key of taken.keys()) if (key < second) taken.delete(key);
  }

  return {
    take(pauseMs) {
      if (pauseMs > MAX_PAUSE_MS) return pauseMs;
      const nowMs = now();
      dropPast(Math.floor(nowMs / SECOND_MS));
      const dueMs = nowMs + pauseMs;
      const first = Math.floor(dueMs / SECOND_MS);
      const last = first + MAX_DELAY_MS / SECOND_MS;
      for (let second = first; second <= last; second += 1) {
        const count = taken.get(second) ?? 0;
        if (count >= RETRIES_PER_SECOND) continue;
        taken.set(second, count + 1);
        return second === first ? pauseMs : (second + Math.random()) * SECOND_MS - nowMs;
      }
      return pauseMs + MAX_DELAY_MS * Math.random();
    },
  };
}
