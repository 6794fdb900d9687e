import type { Logger } from '../../../platform/log.ts';
import { isLogged, type Worker } from '../../../platform/worker.ts';

export interface WakeLoopOptions {
  /** Its name in logs. */
  readonly name: string;
  readonly logger: Logger;
}

export interface WakeLoop extends Worker {
  /**
   * Starts the loop with its first step.
   *
   * @param step does the present work. Resolves to the time after which it is to run again even without a wake.
   *   Milliseconds.
   */
  start(step: () => Promise<number>): void;
  /** The next step starts within this time, by default at once. Milliseconds. */
  wake(withinMs?: number): void;
}

/** Least time between two steps, so that wakes close together cause one step. Milliseconds. */
const MIN_GAP_MS = 2;
const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 2_000;

/**
 * Repeats a step, one at a time, when it is woken or when the last step asked for it. The loop exists before the step,
 * so that parts which the step uses can wake it. A failed step is logged and repeated after a growing pause. The loop
 * is woken thousands of times a second, so unlike `startLoop` it allocates only a timer.
 */
export function createWakeLoop(o: WakeLoopOptions): WakeLoop {
  let step: (() => Promise<number>) | undefined;
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Number.POSITIVE_INFINITY;
  let running: Promise<void> | undefined;
  let endedAt = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let isStopped = false;

  function wake(withinMs = 0): void {
    if (isStopped) return;
    const at = Math.max(performance.now() + withinMs, endedAt + MIN_GAP_MS);
    if (at >= dueAt) return;
    dueAt = at;
    if (step && !running) arm(step);
  }

  function arm(next: () => Promise<number>): void {
    clearTimeout(timer);
    if (dueAt === Number.POSITIVE_INFINITY) return;
    timer = setTimeout(() => begin(next), Math.max(0, dueAt - performance.now()));
  }

  function begin(next: () => Promise<number>): void {
    dueAt = Number.POSITIVE_INFINITY;
    running = run(next).finally(() => {
      running = undefined;
      if (!isStopped) arm(next);
    });
  }

  async function run(next: () => Promise<number>): Promise<void> {
    let pause: number;
    try {
      pause = await next();
      failures = 0;
      endedAt = performance.now();
    } catch (error) {
      failures += 1;
      pause = Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
      pause *= 0.75 + Math.random() / 4;
      // A wake does not shorten the pause after a failure.
      endedAt = performance.now() + pause;
      dueAt = Number.POSITIVE_INFINITY;
      if (isLogged(failures)) o.logger.error({ err: error, loop: o.name, failures }, 'step failed');
    }
    wake(pause);
  }

  return {
    start(first) {
      step = first;
      dueAt = performance.now();
      arm(first);
    },
    wake,
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}
