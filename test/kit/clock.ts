const realNow = performance.now;

/** Advances the monotonic clock of this process. Milliseconds. */
export function advanceClock(ms: number): void {
  const now = performance.now;
  performance.now = () => now.call(performance) + ms;
}

/** Stops the monotonic clock of this process; {@link advanceClock} still advances it. */
export function stopClock(): void {
  const at = performance.now();
  performance.now = () => at;
}

export function restoreClock(): void {
  performance.now = realNow;
}

/** Runs `work` while the monotonic clock of this process is `aheadMs` ahead. */
export async function withClockAhead<T>(aheadMs: number, work: () => Promise<T>): Promise<T> {
  advanceClock(aheadMs);
  return work().finally(restoreClock);
}
