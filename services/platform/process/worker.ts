import { AsyncLocalStorage } from 'node:async_hooks';
import type { Logger } from '../telemetry/log.ts';
import { createBackoff, equalJitter } from './backoff.ts';

/** Background work that runs until `stop`. */
export interface Worker {
  /** Starts no new step, and waits for the step that is running. May be called twice. */
  stop(): Promise<void>;
}

/**
 * When the next step starts: `again` immediately, `idle` after `idleMs`, `done` never, or after a number of
 * milliseconds.
 */
export type Next = 'again' | 'idle' | 'done' | number;

/** One step of the work. The signal aborts when the loop stops. */
export type Step = (signal: AbortSignal) => Promise<Next>;

export interface LoopOptions {
  /** Name of the loop in logs. */
  readonly name: string;
  readonly logger: Logger;
  /** Pause after a step that returns `idle`. Without it, the loop then pauses until it is woken. Milliseconds. */
  readonly idleMs?: number;
  /**
   * Minimum time between two steps, so that several wakes in a short time cause one step; 0 by default. Milliseconds.
   */
  readonly gapMs?: number;
}

export interface Loop extends Worker {
  /** Makes the next step start within this time, by default immediately. Milliseconds. */
  wake(withinMs?: number): void;
}

/** Longest time of a timer. Node ends a longer one after a millisecond. Milliseconds. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The pauses after failures. The longest one is short, so that work resumes soon after an outage. */
const BACKOFF = createBackoff({ firstMs: 200, longestMs: 2_000, jitter: equalJitter });

/** How often a loop logs again that an outage lasts. Milliseconds. */
const LOG_EVERY_MS = 60_000;

/** Starts a loop. Its first step runs immediately, or after `delayMs`. */
export function startLoop(
  o: LoopOptions & { readonly step: Step; readonly delayMs?: number },
): Loop {
  const loop = createLoop(o);
  loop.start(o.step, o.delayMs);
  return loop;
}

/** Counts the failures of a loop in a row, and logs them. */
function createOutage(name: string, logger: Logger) {
  let failures = 0;
  let loggedAt = 0;
  return {
    /** Notes a failure. Returns the pause before the next step. Milliseconds. */
    pauseAfter(error: unknown): number {
      failures += 1;
      const now = performance.now();
      if (failures === 1 || now >= loggedAt + LOG_EVERY_MS) {
        loggedAt = now;
        logger.error({ err: error, loop: name, failures }, 'step failed');
      }
      return BACKOFF(failures);
    },
    end(): void {
      if (failures > 0) logger.info({ loop: name, failures }, 'step recovered');
      failures = 0;
    },
  };
}

/**
 * Creates a loop that repeats a step, one at a time, until `stop`. The loop is created before its step is set, so that
 * parts that the step uses can wake the loop. After a failed step the loop pauses, each time for longer, and a wake
 * does not shorten this pause. The loop logs an outage when it begins, once a minute, and when it ends.
 *
 * Some loops are woken thousands of times a second. So a pause allocates nothing except its timer.
 */
export function createLoop({
  name,
  logger,
  idleMs = Number.POSITIVE_INFINITY,
  gapMs = 0,
}: LoopOptions): Loop & { start(step: Step, delayMs?: number): void } {
  const stopping = new AbortController();
  // The code that wakes the loop may be part of a call. The step must not inherit the trace and the abort signal of
  // that call.
  const inOwnContext = AsyncLocalStorage.snapshot();
  let step: Step | undefined;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  /** When the next step starts, and the earliest time at which it may start. Both by the monotonic clock. */
  let dueAt = Number.POSITIVE_INFINITY;
  let notBefore = Number.NEGATIVE_INFINITY;
  const outage = createOutage(name, logger);

  function wake(withinMs = 0): void {
    const at = Math.max(performance.now() + withinMs, notBefore);
    if (at >= dueAt) return;
    dueAt = at;
    if (step && !running) arm(step);
  }

  function arm(next: Step): void {
    clearTimeout(timer);
    if (stopping.signal.aborted || dueAt === Number.POSITIVE_INFINITY) return;
    const pauseMs = Math.min(dueAt - performance.now(), MAX_TIMER_MS);
    if (pauseMs > 0 || gapMs > 0) timer = setTimeout(begin, Math.max(0, pauseMs), next);
    // Use a microtask, because the step must not start during the call of `wake`.
    else queueMicrotask(() => begin(next));
  }

  function begin(next: Step): void {
    if (running || stopping.signal.aborted) return;
    dueAt = Number.POSITIVE_INFINITY;
    running = inOwnContext(run, next).finally(() => {
      running = undefined;
      arm(next);
    });
  }

  async function run(next: Step): Promise<void> {
    try {
      const result = await next(stopping.signal);
      outage.end();
      notBefore = performance.now() + gapMs;
      if (result === 'done') stopping.abort();
      else wake(result === 'again' ? 0 : result === 'idle' ? idleMs : result);
    } catch (error) {
      if (stopping.signal.aborted) return;
      notBefore = performance.now() + outage.pauseAfter(error);
      dueAt = notBefore;
    }
  }

  return {
    start(first, delayMs = 0) {
      step = first;
      if (delayMs === 0) return begin(first);
      dueAt = Math.min(dueAt, performance.now() + delayMs);
      arm(first);
    },
    wake,
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
