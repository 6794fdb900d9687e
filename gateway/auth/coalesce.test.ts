import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { isOutage } from '../../services/platform/outage.ts';
import { CoalescedWaitTimeout, createCoalescer } from './coalesce.ts';

/** Coalesces calls of a `run` that blocks until `release`. A result is `<key>:<number of the run>:<number of the call>`. */
function blocking(o: { timeoutMs?: number } = {}) {
  const runs: [string, number][] = [];
  const blocked: (() => void)[] = [];
  const call = createCoalescer(async (key, count) => {
    runs.push([key, count]);
    const run = runs.length;
    await new Promise<void>((resolve) => blocked.push(resolve));
    return Array.from({ length: count }, (_, at) => `${key}:${run}:${at}`);
  }, o);
  const turn = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
  return {
    call,
    runs,
    turn,
    async release() {
      await turn();
      blocked.shift()?.();
      await turn();
    },
  };
}

describe('coalesced calls', () => {
  // Fake timers: the time limit expires when a test advances the time.
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('calls in one turn of the event loop share one run, and each gets its own result', async () => {
    const { call, runs, release } = blocking();
    const responses = Promise.all([call('a'), call('a'), call('a')]);
    await release();
    expect(await responses).toEqual(['a:1:0', 'a:1:1', 'a:1:2']);
    expect(runs).toEqual([['a', 3]]);
  });

  test('a call that arrives during a run gets its result from the next run', async () => {
    const { call, runs, turn, release } = blocking();
    const first = call('a');
    await turn();
    const late = Promise.all([call('a'), call('a')]);
    await release();
    expect(await first).toBe('a:1:0');
    await release();
    expect(await late).toEqual(['a:2:0', 'a:2:1']);
    expect(runs).toEqual([
      ['a', 1],
      ['a', 2],
    ]);
  });

  test('keys do not wait for each other', async () => {
    const { call, runs, turn, release } = blocking();
    const both = Promise.all([call('a'), call('b')]);
    await turn();
    expect(runs).toEqual([
      ['a', 1],
      ['b', 1],
    ]);
    await release();
    await release();
    expect(await both).toEqual(['a:1:0', 'b:2:0']);
  });

  test('calls are rejected after the time limit, and there is no later run for them', async () => {
    const { call, runs, turn } = blocking({ timeoutMs: 100 });
    const first = call('a');
    await turn();
    const all = Promise.allSettled([first, call('a'), call('a')]);
    jest.advanceTimersByTime(100);
    const results = await all;
    const tooLong = { status: 'rejected', reason: expect.any(CoalescedWaitTimeout) };
    expect(results).toEqual([tooLong, tooLong, tooLong]);
    expect(isOutage(new CoalescedWaitTimeout())).toBe(true);
    expect(runs).toEqual([['a', 1]]);
  });

  test('the time limit includes the wait for the current run', async () => {
    const { call, runs, turn, release } = blocking({ timeoutMs: 2_000 });
    const first = call('a');
    await turn();
    const late = expect(call('a')).rejects.toThrow(CoalescedWaitTimeout);
    await release();
    expect(await first).toBe('a:1:0');
    jest.advanceTimersByTime(2_000);
    await late;
    expect(runs).toHaveLength(2);
  });

  test('a failure rejects all calls of its run, and no later calls', async () => {
    let isBroken = true;
    const call = createCoalescer(async (_key, count) => {
      if (isBroken) throw new Error('unavailable');
      return new Array<number>(count).fill(1);
    });
    const results = await Promise.allSettled([call('a'), call('a')]);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    isBroken = false;
    expect(await call('a')).toBe(1);
  });
});
