/** How much longer than alone this machine's processes take at present, as far as others use it. */
export interface Crowding {
  /** How much slower than alone, on average since the start: 1 on a machine without other load. */
  factor(): number;
  stop(): void;
}

const BURN_MS = 10;
const EVERY_MS = 1_000;
/** Beyond that it is not the machine alone. */
const MOST = 2;

/** Assumes that the machine has no other load. */
export const ALONE: Crowding = { factor: () => 1, stop: () => {} };

/** Measures again and again how long a little work takes, against the processor time that it costs. */
export function watchCrowding(): Crowding {
  let count = 0;
  let sum = 0;
  const measure = (): void => {
    count += 1;
    sum += burn();
  };
  measure();
  const timer = setInterval(measure, EVERY_MS);
  return {
    factor: () => Math.min(Math.max(sum / count, 1), MOST),
    stop: () => clearInterval(timer),
  };
}

function burn(): number {
  const from = performance.now();
  const before = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(before);
    const usedMs = (user + system) / 1_000;
    if (usedMs >= BURN_MS) return (performance.now() - from) / usedMs;
  }
}
