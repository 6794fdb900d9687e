/** How much other load slows the processes of this machine down. */
export interface MachineLoad {
  /** The average slowdown since the start: 1 on a machine without other load. */
  factor(): number;
  stop(): void;
}

/** CPU time of one measurement. Milliseconds. */
const BURN_MS = 10;
/** Interval of the measurements. Milliseconds. */
const EVERY_MS = 1_000;
/** Maximum slowdown, because a larger one has other causes than the load. */
const MAX = 2;

/** Assumes a machine without other load. */
export const IDLE_MACHINE: MachineLoad = { factor: () => 1, stop: () => {} };

/** Repeatedly compares the duration of a small computation with the CPU time that it uses. */
export function watchMachineLoad(): MachineLoad {
  let count = 0;
  let sum = 0;
  const measure = (): void => {
    count += 1;
    sum += burn();
  };
  measure();
  const timer = setInterval(measure, EVERY_MS);
  return {
    factor: () => Math.min(Math.max(sum / count, 1), MAX),
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
