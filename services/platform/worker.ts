import type { Logger } from './log.ts';

/** Something that works in the background until it is stopped. */
export interface Worker {
  /** Takes no new work, lets the step in flight finish, then resolves. May be called twice. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  /** Names the loop in logs. */
  readonly name: string;
  /** How long to rest after a step that found nothing to do. Milliseconds. */
  readonly idleMs: number;
  readonly logger: Logger;
  /**
   * One piece of work; `again` asks for the next at once, a number for a rest of so many milliseconds
   * instead of `idleMs`. The signal aborts when the loop stops.
   */
  readonly step: (signal: AbortSignal) => Promise<'again' | 'idle' | number>;
}

/**
 * The first and the longest pause after a failed step. Work flows again this soon after what failed
 * is back, so the longest is short. Milliseconds.
 */
const FIRST_BACKOFF_MS = 200;
const MAX_BACKOFF_MS = 2_000;

/** Every so many failures in a row are logged, beside the first few: an hour's outage is no flood. */
const LOG_EVERY = 32;

/**
 * Repeats a step until stopped.
 *
 * A step that throws is logged and tried again after a growing pause with jitter, so that many
 * replicas do not return to a struggling database at the same moment. `wake` ends the rest of an
 * idle loop at once; it does not shorten the pause after a failure.
 */
export function startLoop(o: LoopOptions): Worker & { wake(): void } {
  const stopping = new AbortController();
  let woken = false;
  let failures = 0;
  // Ends the pause there is, if any; that after a failure only when the loop stops.
  let endRest = nothing;
  let endPause = nothing;

  // Not by a signal of its own: an abort builds an error with a stack, and busy loops wake often.
  const pause = (ms: number, isRest: boolean): Promise<void> =>
    new Promise((done) => {
      const end = (): void => {
        clearTimeout(timer);
        [endRest, endPause] = [nothing, nothing];
        done();
      };
      const timer = setTimeout(end, ms);
      endPause = end;
      if (isRest) endRest = end;
      if (stopping.signal.aborted) end();
    });

  const turn = async (): Promise<void> => {
    woken = false;
    try {
      const outcome = await o.step(stopping.signal);
      if (failures > 0) o.logger.info({ loop: o.name, failures }, 'step works again');
      failures = 0;
      if (outcome === 'again' || woken || stopping.signal.aborted) return;
      await pause(outcome === 'idle' ? o.idleMs : outcome, true);
    } catch (error) {
      if (stopping.signal.aborted) return;
      failures += 1;
      if (isTold(failures)) o.logger.error({ err: error, loop: o.name, failures }, 'step failed');
      await pause(backoff(failures), false);
    }
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) await turn();
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

function nothing(): void {}

/** Which failures in a row are logged: the first, second, fourth, eighth …, then every 32nd. */
export function isTold(failures: number): boolean {
  const isPowerOfTwo = (failures & (failures - 1)) === 0;
  return failures <= LOG_EVERY ? isPowerOfTwo : failures % LOG_EVERY === 0;
}

function backoff(failures: number): number {
  const ceiling = Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
  return ceiling / 2 + (Math.random() * ceiling) / 2;
}
