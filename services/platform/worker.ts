import type { Logger } from './log.ts';

/** Background work until it is stopped. */
export interface Worker {
  /** Starts no new work, waits for the step in flight, then resolves. May be called twice. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  /** Names the loop in logs. */
  readonly name: string;
  /** Pause after a step that found no work. Milliseconds. */
  readonly idleMs: number;
  readonly logger: Logger;
  /**
   * One piece of work. `again` starts the next step at once; a number is a pause in milliseconds instead of `idleMs`.
   * The signal aborts when the loop stops.
   */
  readonly step: (signal: AbortSignal) => Promise<'again' | 'idle' | number>;
}

/**
 * The first and the longest pause after a failed step. The longest is short, so that work resumes soon after an outage.
 * Milliseconds.
 */
const FIRST_BACKOFF_MS = 200;
const MAX_BACKOFF_MS = 2_000;

/** After the first few failures in a row, only every 32nd is logged, so that an outage does not flood the log. */
const LOG_EVERY = 32;

/**
 * Repeats a step until stopped.
 *
 * A failed step is logged and retried after a growing pause with jitter, so that many replicas do not return to an
 * overloaded database at the same moment. `wake` ends the pause of an idle loop at once. It does not shorten the pause
 * after a failure.
 */
export function startLoop(o: LoopOptions): Worker & { wake(): void } {
  const stopping = new AbortController();
  let woken = false;
  let failures = 0;
  // Ends the current pause, if any. A pause after a failure ends early only when the loop stops.
  let endRest = noop;
  let endPause = noop;

  // No AbortSignal: an abort creates an error with a stack, and busy loops wake often.
  const pause = (ms: number, isRest: boolean): Promise<void> =>
    new Promise((done) => {
      const end = (): void => {
        clearTimeout(timer);
        [endRest, endPause] = [noop, noop];
        done();
      };
      const timer = setTimeout(end, ms);
      endPause = end;
      if (isRest) endRest = end;
      if (stopping.signal.aborted) end();
    });

  const runStep = async (): Promise<void> => {
    woken = false;
    try {
      const outcome = await o.step(stopping.signal);
      if (failures > 0) o.logger.info({ loop: o.name, failures }, 'step recovered');
      failures = 0;
      if (outcome === 'again' || woken || stopping.signal.aborted) return;
      await pause(outcome === 'idle' ? o.idleMs : outcome, true);
    } catch (error) {
      if (stopping.signal.aborted) return;
      failures += 1;
      if (isLogged(failures)) o.logger.error({ err: error, loop: o.name, failures }, 'step failed');
      await pause(backoff(failures), false);
    }
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) await runStep();
  };
  const finished = run();

  return {
    wake() {
      woken = true;
      endRest();
    },
    async stop() {
      stopping.abort();
      endPause();
      await finished;
    },
  };
}

function noop(): void {}

/** Which failures in a row are logged: the first, second, fourth, eighth …, then every 32nd. */
export function isLogged(failures: number): boolean {
  const isPowerOfTwo = (failures & (failures - 1)) === 0;
  return failures <= LOG_EVERY ? isPowerOfTwo : failures % LOG_EVERY === 0;
}

function backoff(failures: number): number {
  const ceiling = Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
  return ceiling / 2 + (Math.random() * ceiling) / 2;
}
