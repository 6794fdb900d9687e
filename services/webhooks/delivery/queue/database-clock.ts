/** A reading of the database's clock between two readings of this process's monotonic clock. Milliseconds. */
export interface ClockReading {
  readonly startedMs: number;
  readonly endedMs: number;
  /** The database's clock at some moment between the two. Milliseconds since 1970. */
  readonly databaseMs: number;
}

/** An estimate of the database's clock: the monotonic clock plus a skew, which is measured regularly. */
export interface DatabaseClock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /**
   * Measures the skew.
   *
   * @returns the step of the database's clock since the last reading; 0 without a step. Milliseconds.
   */
  read(reading: ClockReading): number;
}

/** A smaller difference counts as drift, which only changes the skew. Milliseconds. */
const MIN_STEP_MS = 5_000;

export function createDatabaseClock(): DatabaseClock {
  /** Difference to the monotonic clock. Before the first reading it is the difference of this process's own clock. */
  let skewMs = Date.now() - performance.now();
  /** Lower and upper bound of the skew at the last reading. */
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

/** Returns the part of the difference that a slow response cannot explain. */
function stepBetween(before: Bounds, after: Bounds): number {
  if (after.lowMs > before.highMs + MIN_STEP_MS) return after.lowMs - before.highMs;
  if (after.highMs < before.lowMs - MIN_STEP_MS) return after.highMs - before.lowMs;
  return 0;
}
