/** The least that a client moves of what is large. */
export interface MinimumRate {
  readonly bytesPerS: number;
  /** Over the last of these. Milliseconds. */
  readonly windowMs: number;
}

/** A tenth of what the largest body or answer needs to be done in time: slow lines pass, stalled ones do not. */
export const MINIMUM_RATE: MinimumRate = { bytesPerS: 32 * 1024, windowMs: 10_000 };

/** Counts what one client moves. */
export interface RateWatch {
  moved(bytes: number): void;
  stop(): void;
}

/** How often the window moves on: a process that stood still for long sees one step, not a slow client. */
const STEPS = 10;

/** Calls `onSlow` once when less was moved than the minimum over a whole window. */
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
    const moved = steps.reduce((sum, step) => sum + step, 0);
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
