const realNow = performance.now;
let aheadMs = 0;
let stoppedAt: number | undefined;

/** Advances the monotonic clock of this process. Milliseconds. */
export function advanceClock(ms: number): void {
  aheadMs += ms;
  performance.now = () => (stoppedAt ?? realNow.call(performance)) + aheadMs;
}

/** Stops the monotonic clock of this process; {@link advanceClock} still advances it. */
export function stopClock(): void {
  stoppedAt ??= realNow.call(performance);
  advanceClock(0);
}

export function restoreClock(): void {
  aheadMs = 0;
  stoppedAt = undefined;
  performance.now = realNow;
}

/** Runs `work` while the monotonic clock of this process is `ms` ahead. */
export async function withClockAhead<T>(ms: number, work: () => Promise<T>): Promise<T> {
  advanceClock(ms);
  return work().finally(restoreClock);
}
