import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { isOutage } from '../../services/platform/outage.ts';
import { AskedTooLong, createGathering } from './gathered.ts';

/** Answers `key:question:asker`, when it is let. */
function slowly(o: { patienceMs?: number } = {}) {
  const asked: [string, number][] = [];
  const gates: (() => void)[] = [];
  const ask = createGathering(async (key, count) => {
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

describe('gathered questions', () => {
  // Patience ends when a test says so.
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('those of one turn are one, and each gets its own answer', async () => {
    const { ask, asked, letGo } = slowly();
    const answers = Promise.all([ask('a'), ask('a'), ask('a')]);
    await letGo();
    expect(await answers).toEqual(['a:1:0', 'a:1:1', 'a:1:2']);
    expect(asked).toEqual([['a', 3]]);
  });

  test('whoever comes while one is open is answered by the next, never by that one', async () => {
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

  test('nobody waits longer than promised, and nothing is asked for those who have gone', async () => {
    const { ask, asked, turn } = slowly({ patienceMs: 100 });
    const first = ask('a');
    await turn();
    const all = Promise.allSettled([first, ask('a'), ask('a')]);
    jest.advanceTimersByTime(100);
    const outcomes = await all;
    const tooLong = { status: 'rejected', reason: expect.any(AskedTooLong) };
    expect(outcomes).toEqual([tooLong, tooLong, tooLong]);
    expect(isOutage(new AskedTooLong())).toBe(true);
    expect(asked).toEqual([['a', 1]]);
  });

  test('the wait behind a question is a part of it', async () => {
    const { ask, asked, turn, letGo } = slowly({ patienceMs: 2_000 });
    const first = ask('a');
    await turn();
    const late = expect(ask('a')).rejects.toThrow(AskedTooLong);
    await letGo();
    expect(await first).toBe('a:1:0');
    jest.advanceTimersByTime(2_000);
    await late;
    expect(asked).toHaveLength(2);
  });

  test("a failure is everybody's who asked, and of nobody after", async () => {
    let isBroken = true;
    const ask = createGathering(async (_key, count) => {
      if (isBroken) throw new Error('away');
      return new Array<number>(count).fill(1);
    });
    const outcomes = await Promise.allSettled([ask('a'), ask('a')]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    isBroken = false;
    expect(await ask('a')).toBe(1);
  });
});
