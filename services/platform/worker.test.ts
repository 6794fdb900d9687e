import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
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
