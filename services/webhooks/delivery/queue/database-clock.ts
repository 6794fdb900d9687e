/** A reading of the database's clock, between two moments of the monotonic clock of this process. Milliseconds. */
export interface ClockReading {
  readonly askedMs: number;
  readonly answeredMs: number;
  /** The database's clock at some moment between the two; since 1970. */
  readonly databaseMs: number;
}

/** The database's clock as this process knows it: the monotonic clock, compared with it now and then. */
export interface DatabaseClock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /**
   * Compares the clocks.
   *
   * @returns by how far the database's clock was set since the last reading; 0 when it was not. Milliseconds.
   */
  read(reading: ClockReading): number;
}

/** Less is no step: clocks drift, and their drift is corrected. Milliseconds. */
const MIN_STEP_MS = 5_000;

export function createDatabaseClock(): DatabaseClock {
  /** From the monotonic clock to the database's; to our own clock until the database answered. */
  let skewMs = Date.now() - performance.now();
  /** Between these the skew lay at the last reading. */
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

/** What no late answer explains. */
function stepBetween(before: Bounds, after: Bounds): number {
  if (after.lowMs > before.highMs + MIN_STEP_MS) return after.lowMs - before.highMs;
  if (after.highMs < before.lowMs - MIN_STEP_MS) return after.highMs - before.lowMs;
  return 0;
}
