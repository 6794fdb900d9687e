import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { pino } from 'pino';
import { addedJitter, createBackoff, equalJitter, noJitter, retry } from './backoff.ts';
import { within } from './within.ts';
import { createLoop, startLoop } from './worker.ts';

const logger = pino({ level: 'silent' });
const FOREVER_MS = 3_600_000;

/** Resolves when `count` calls were made. */
function countdown(count: number) {
  let left = count;
  let reached: () => void = () => {};
  const done = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const hit = (): void => {
    left -= 1;
    if (left === 0) reached();
  };
  return { hit, done };
}

describe('a loop', () => {
  test('continues immediately while there is more work', async () => {
    const { hit, done } = countdown(50);
    const step = async () => {
      hit();
      return 'again' as const;
    };
    const loop = startLoop({ name: 'test', idleMs: FOREVER_MS, logger, step });
    await done;
    await loop.stop();
  });

  test('pauses without work until it is woken', async () => {
    const first = countdown(1);
    const second = countdown(2);
    let steps = 0;
    const step = async () => {
      steps += 1;
      first.hit();
      second.hit();
      return 'idle' as const;
    };
    const loop = startLoop({ name: 'test', idleMs: FOREVER_MS, logger, step });
    await first.done;
    await new Promise((resolve) => setImmediate(resolve));
    expect(steps).toBe(1);
    loop.wake();
    await second.done;
    await loop.stop();
    expect(steps).toBe(2);
  });

  test('pauses for longer than a timer of Node can', async () => {
    let steps = 0;
    const loop = startLoop({
      name: 'test',
      logger,
      step: async () => {
        steps += 1;
        return 2 ** 31 + FOREVER_MS;
      },
    });
    // The pauses of this loop end after that of an overflowed timer.
    const { hit, done } = countdown(3);
    const other = startLoop({
      name: 'other',
      logger,
      step: async () => {
        hit();
        return 5;
      },
    });
    await done;
    expect(steps).toBe(1);
    await Promise.all([loop.stop(), other.stop()]);
  });

  test('pauses as long as the step says', async () => {
    const { hit, done } = countdown(3);
    const step = async () => {
      hit();
      return 1;
    };
    const loop = startLoop({ name: 'test', idleMs: FOREVER_MS, logger, step });
    await done;
    await loop.stop();
  });

  test('logs an outage once, and its end', async () => {
    const logged: unknown[] = [];
    const listener = pino({ level: 'info' }, { write: (line) => logged.push(JSON.parse(line)) });
    let steps = 0;
    const { hit, done } = countdown(5);
    const step = async () => {
      steps += 1;
      if (steps <= 3) throw new Error('the database is unavailable');
      hit();
      return 1;
    };
    const loop = startLoop({ name: 'test', idleMs: 1, logger: listener, step });
    await done;
    await loop.stop();
    expect(logged).toMatchObject([
      { msg: 'step failed', failures: 1 },
      { msg: 'step recovered', failures: 3 },
    ]);
  });

  test.each([0, 2])(
    'a wake during a step is followed by another step (gap of %d ms)',
    async (gapMs) => {
      const [first, second] = [countdown(1), countdown(2)];
      let end = (): void => {};
      const loop = startLoop({
        name: 'test',
        logger,
        gapMs,
        step: async () => {
          first.hit();
          second.hit();
          await new Promise<void>((done) => {
            end = done;
          });
          return 'idle';
        },
      });
      await first.done;
      loop.wake();
      end();
      await second.done;
      end();
      await loop.stop();
    },
  );

  test.each([0, 2])(
    'a step does not belong to the call that woke the loop (gap of %d ms)',
    async (gapMs) => {
      const call = new AsyncLocalStorage<string>();
      const seen: unknown[] = [];
      const second = countdown(2);
      const loop = startLoop({
        name: 'test',
        logger,
        gapMs,
        step: async () => {
          seen.push(call.getStore());
          second.hit();
          return 'idle';
        },
      });
      await new Promise((resolve) => setImmediate(resolve));
      call.run('of a caller', () => loop.wake());
      await second.done;
      await loop.stop();
      expect(seen).toEqual([undefined, undefined]);
    },
  );

  test('wakes at the same moment cause one step, and none within the call', async () => {
    let steps = 0;
    const step = async () => {
      steps += 1;
      return 'idle' as const;
    };
    const loop = startLoop({ name: 'test', logger, step });
    await new Promise((resolve) => setImmediate(resolve));
    for (let wake = 0; wake < 3; wake += 1) loop.wake();
    expect(steps).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(steps).toBe(2);
    await loop.stop();
  });

  test('that is woken before its start has its first step, and none after its end', async () => {
    const { hit, done } = countdown(1);
    let steps = 0;
    const loop = createLoop({ name: 'test', logger });
    loop.wake();
    loop.start(async () => {
      steps += 1;
      hit();
      return 'done';
    }, 1);
    await done;
    loop.wake();
    await new Promise((resolve) => setImmediate(resolve));
    await loop.stop();
    expect(steps).toBe(1);
  });

  test('continues after a failed step', async () => {
    const { hit, done } = countdown(2);
    const step = async () => {
      hit();
      throw new Error('the database is unavailable');
    };
    const loop = startLoop({ name: 'test', idleMs: 1, logger, step });
    await done;
    await loop.stop();
  });

  test('stop ends the pause immediately, and lets the step in flight finish', async () => {
    const started = countdown(1);
    let release: () => void = () => {};
    let aborted = false;
    let finished = false;
    const step = async (signal: AbortSignal) => {
      started.hit();
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      aborted = signal.aborted;
      finished = true;
      return 'idle' as const;
    };
    const loop = startLoop({ name: 'test', idleMs: FOREVER_MS, logger, step });
    await started.done;
    const stopped = loop.stop();
    expect(finished).toBe(false);
    release();
    await stopped;
    expect([finished, aborted]).toEqual([true, true]);
    await loop.stop();
  });
});

const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const backoffs = fc.record({
  firstMs: fc.integer({ min: 1, max: 10_000 }),
  longestMs: fc.integer({ min: 10_000, max: 1_000_000 }),
  failures: fc.integer({ min: 1, max: 5_000 }),
  random: randoms,
});

/** The pause before jitter is applied. */
const scheduled = (o: { firstMs: number; longestMs: number; failures: number }): number =>
  Math.min(o.firstMs * 2 ** (o.failures - 1), o.longestMs);

describe('a backoff', () => {
  test('with equal jitter is from half of the scheduled pause to all of it', () => {
    fc.assert(
      fc.property(backoffs, ({ failures, random, ...o }) => {
        const pauseMs = createBackoff({ ...o, jitter: equalJitter, random: () => random })(
          failures,
        );
        const wholeMs = scheduled({ ...o, failures });
        expect(pauseMs).toBeGreaterThanOrEqual(wholeMs / 2);
        expect(pauseMs).toBeLessThanOrEqual(wholeMs);
      }),
    );
  });

  test('with added jitter is never shorter than scheduled, and up to a fifth longer', () => {
    fc.assert(
      fc.property(backoffs, ({ failures, random, ...o }) => {
        const pauseMs = createBackoff({ ...o, jitter: addedJitter, random: () => random })(
          failures,
        );
        const wholeMs = scheduled({ ...o, failures });
        expect(pauseMs).toBeGreaterThanOrEqual(wholeMs);
        expect(pauseMs).toBeLessThanOrEqual(wholeMs * 1.2);
      }),
    );
  });

  test('never becomes shorter with more failures, for the same random number', () => {
    fc.assert(
      fc.property(backoffs, ({ failures, random, ...o }) => {
        const backoff = createBackoff({ ...o, jitter: equalJitter, random: () => random });
        expect(backoff(failures + 1)).toBeGreaterThanOrEqual(backoff(failures));
      }),
    );
  });

  test('doubles up to the longest pause', () => {
    const backoff = createBackoff({ firstMs: 100, longestMs: 1_000, jitter: noJitter });
    expect([1, 2, 3, 4, 5, 2_000].map(backoff)).toEqual([100, 200, 400, 800, 1_000, 1_000]);
  });
});

describe('retry', () => {
  const failing = (times: number) => {
    let calls = 0;
    return async () => {
      calls += 1;
      if (calls <= times) throw new Error(`failure ${calls}`);
      return calls;
    };
  };

  test('repeats the work with growing pauses until it succeeds', async () => {
    const seen: number[] = [];
    const backoff = (failures: number) => {
      seen.push(failures);
      return 0;
    };
    expect(await retry(failing(3), { backoff, isTransient: () => true })).toBe(4);
    expect(seen).toEqual([1, 2, 3]);
  });

  test('ends with the first error that is not passing', async () => {
    const isTransient = (_: unknown, failures: number) => failures < 2;
    await expect(retry(failing(9), { backoff: () => 0, isTransient })).rejects.toThrow('failure 2');
  });

  test('is ended by its signal, also during a pause', async () => {
    const ending = new AbortController();
    const backoff = () => {
      setImmediate(() => ending.abort());
      return 3_600_000;
    };
    const retrying = retry(failing(9), { backoff, isTransient: () => true, signal: ending.signal });
    await expect(retrying).rejects.toThrow('failure 2');
  });
});

test('waits for work that finishes in time', async () => {
  expect(await within(60_000, Promise.resolve('x'))).toBe(true);
});

test('does not wait for work that hangs', async () => {
  expect(await within(5, new Promise(() => {}))).toBe(false);
});

test('a failure in time is thrown, a later one is ignored', async () => {
  await expect(within(60_000, Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  let fail: (error: Error) => void = () => {};
  const late = new Promise((_, reject) => {
    fail = reject;
  });
  expect(await within(1, late)).toBe(false);
  fail(new Error('late'));
  await new Promise((resolve) => setImmediate(resolve));
});
