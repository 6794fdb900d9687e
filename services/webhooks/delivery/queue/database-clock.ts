/** A reading of the database's clock between two readings of this process's monotonic clock. Milliseconds. */
export interface ClockReading {
  readonly askedMs: number;
  readonly answeredMs: number;
  /** The database's clock at some moment between the two; since 1970. */
  readonly databaseMs: number;
}

/** An estimate of the database's clock: the monotonic clock plus a skew, which is measured regularly. */
export interface DatabaseClock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /**
   * Measures the skew.
   *
   * @returns by how much the database's clock was set since the last reading; 0 when it was not. Milliseconds.
   */
  read(reading: ClockReading): number;
}

/** A smaller difference is drift, which is corrected, and not a step. Milliseconds. */
const MIN_STEP_MS = 5_000;

export function createDatabaseClock(): DatabaseClock {
  /** Difference to the monotonic clock; before the first answer of the database, that of our own clock. */
  let skewMs = Date.now() - performance.now();
  /** Lower and upper bound of the skew at the last reading. */
  let last: { readonly lowMs: number; readonly highMs: number } | undefined;

  return {
    nowMs: () => performance.now() + skewMs,
    read({ askedMs, answeredMs, databaseMs }) {
      const [lowMs, highMs] = [databaseMs - answeredMs, databaseMs - askedMs];
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

/** The part of the difference that a slow answer cannot explain. */
function stepBetween(before: Bounds, after: Bounds): number {
  if (after.lowMs > before.highMs + MIN_STEP_MS) return after.lowMs - before.highMs;
  if (after.highMs < before.lowMs - MIN_STEP_MS) return after.highMs - before.lowMs;
  return 0;
}
