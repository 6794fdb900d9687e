/** The minimum rate at which a client must send a large or late body, or read a large response. */
export interface MinimumRate {
  readonly bytesPerS: number;
  /** The time over which the rate is measured. Milliseconds. */
  readonly windowMs: number;
}

/**
 * The default: a tenth of the rate at which the largest body or response would just meet its time limit. Only a stalled
 * or very slow client is slower.
 */
const MINIMUM_RATE: MinimumRate = { bytesPerS: 32 * 1024, windowMs: 10_000 };

/** Measures the rate of one client. */
export interface RateWatch {
  moved(bytes: number): void;
  stop(): void;
}

/**
 * Number of steps of a window. A pause of the process is at most one step, so that it does not look like a slow client.
 */
const STEPS = 10;

/** Calls `onSlow` once: as soon as the rate over a whole window is below the minimum. */
export function watchRate(
  onSlow: () => void,
  { bytesPerS, windowMs }: MinimumRate = MINIMUM_RATE,
): RateWatch {
  const steps: number[] = [];
  let bytes = 0;
  const timer = setInterval(() => {
    steps.push(bytes);
    bytes = 0;
    if (steps.length < STEPS) return;
    const moved = steps.reduce((total, step) => total + step, 0);
    steps.shift();
    if (moved * 1_000 >= bytesPerS * windowMs) return;
    clearInterval(timer);
    onSlow();
  }, windowMs / STEPS).unref();
  return {
    moved(more) {
      bytes += more;
    },
    stop: () => clearInterval(timer),
  };
}
