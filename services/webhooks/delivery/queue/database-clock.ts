/**
 * A reading of the database's clock, with the times of this process's monotonic clock before and after. Milliseconds.
 */
export interface ClockReading {
  readonly startedMs: number;
  readonly endedMs: number;
  /** The database's clock at some moment in between. Milliseconds since 1970. */
  readonly databaseMs: number;
}

/** An estimate of the database's clock. It is the monotonic clock plus a skew, which is measured regularly. */
export interface DatabaseClock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /**
   * Measures the skew.
   *
   * @returns the step of the database's clock since the last reading; 0 when there was none. Milliseconds.
   */
  read(reading: ClockReading): number;
}

/** Smaller differences count as drift, and only change the skew. Milliseconds. */
const MIN_STEP_MS = 5_000;

export function createDatabaseClock(): DatabaseClock {
  /** Database's clock minus monotonic clock. Before the first reading it uses this process's own clock. */
  let skewMs = Date.now() - performance.now();
  /** Lower and upper bound of the skew in the last reading. */
  let last: { readonly lowMs: number; readonly highMs: number } | undefined;

  return {
    nowMs: () => performance.now() + skewMs,
    read({ startedMs, endedMs, databaseMs }) {
      const [lowMs, highMs] = [databaseMs - endedMs, databaseMs - startedMs];
      const stepMs = last ? stepBetween(last, { lowMs, highMs }) : 0;
      last = { lowMs, highMs };
      skewMs = Math.min(Math.max(skewMs, lowMs), highMs);
      return stepMs;
    },
  };
}

interface Bounds {
  readonly lowMs: number;
  readonly highMs: number;
}

/** Returns the difference of two readings, without the part that a slow response can explain. */
function stepBetween(before: Bounds, after: Bounds): number {
  if (after.lowMs > before.highMs + MIN_STEP_MS) return after.lowMs - before.highMs;
  if (after.highMs < before.lowMs - MIN_STEP_MS) return after.highMs - before.lowMs;
  return 0;
}
