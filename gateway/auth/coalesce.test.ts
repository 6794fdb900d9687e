import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { isOutage } from '../../services/platform/outage.ts';
import { CoalescedWaitTimeout, createCoalescer } from './coalesce.ts';

/** Coalesces calls of an `ask` that answers `key:ask:call` after `letGo`. */
function slowly(o: { timeoutMs?: number } = {}) {
  const asked: [string, number][] = [];
  const gates: (() => void)[] = [];
  const ask = createCoalescer(async (key, count) => {
    asked.push([key, count]);
    const question = asked.length;
    await new Promise<void>((resolve) => gates.push(resolve));
    return Array.from({ length: count }, (_, at) => `${key}:${question}:${at}`);
  }, o);
  const turn = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
  return {
    ask,
    asked,
    turn,
    async letGo() {
      await turn();
      gates.shift()?.();
      await turn();
    },
  };
}

describe('coalesced calls', () => {
  // Fake timers: the time limit ends when a test advances the time.
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('calls in one turn of the event loop share one ask, and each gets its own result', async () => {
    const { ask, asked, letGo } = slowly();
    const answers = Promise.all([ask('a'), ask('a'), ask('a')]);
    await letGo();
    expect(await answers).toEqual(['a:1:0', 'a:1:1', 'a:1:2']);
    expect(asked).toEqual([['a', 3]]);
  });

  test('a call that arrives while an ask is open is answered by the next ask', async () => {
    const { ask, asked, turn, letGo } = slowly();
    const first = ask('a');
    await turn();
    const late = Promise.all([ask('a'), ask('a')]);
    await letGo();
    expect(await first).toBe('a:1:0');
    await letGo();
    expect(await late).toEqual(['a:2:0', 'a:2:1']);
    expect(asked).toEqual([
      ['a', 1],
      ['a', 2],
    ]);
  });

  test('keys do not wait for each other', async () => {
    const { ask, asked, turn, letGo } = slowly();
    const both = Promise.all([ask('a'), ask('b')]);
    await turn();
    expect(asked).toEqual([
      ['a', 1],
      ['b', 1],
    ]);
    await letGo();
    await letGo();
    expect(await both).toEqual(['a:1:0', 'b:2:0']);
  });

  test('calls are rejected after the time limit, and no ask is made for them later', async () => {
    const { ask, asked, turn } = slowly({ timeoutMs: 100 });
    const first = ask('a');
    await turn();
    const all = Promise.allSettled([first, ask('a'), ask('a')]);
    jest.advanceTimersByTime(100);
    const outcomes = await all;
    const tooLong = { status: 'rejected', reason: expect.any(CoalescedWaitTimeout) };
    expect(outcomes).toEqual([tooLong, tooLong, tooLong]);
    expect(isOutage(new CoalescedWaitTimeout())).toBe(true);
    expect(asked).toEqual([['a', 1]]);
  });

  test('the time limit includes the wait for an open ask', async () => {
    const { ask, asked, turn, letGo } = slowly({ timeoutMs: 2_000 });
    const first = ask('a');
    await turn();
    const late = expect(ask('a')).rejects.toThrow(CoalescedWaitTimeout);
    await letGo();
    expect(await first).toBe('a:1:0');
    jest.advanceTimersByTime(2_000);
    await late;
    expect(asked).toHaveLength(2);
  });

  test('a failure rejects all calls of that ask, and no later ones', async () => {
    let isBroken = true;
    const ask = createCoalescer(async (_key, count) => {
      if (isBroken) throw new Error('unavailable');
      return new Array<number>(count).fill(1);
    });
    const outcomes = await Promise.allSettled([ask('a'), ask('a')]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    isBroken = false;
    expect(await ask('a')).toBe(1);
  });
});
