import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { until } from '../../../test/kit/until.ts';
import type { ReceivedRecord } from './event-bus.ts';
import { RecordBatches } from './record-batches.ts';

function pending(key: string) {
  const record: ReceivedRecord = {
    topic: 'events',
    key,
    position: key,
    value: new Uint8Array(1),
    headers: {},
  };
  return { record, done: () => {} };
}

/** A `RecordBatches` whose calls last until the test ends them, and the keys of each call. */
function batchesOf(parallelAfterMs: number, gatherMs = 0) {
  const calls: { keys: string[]; end: () => void }[] = [];
  const batches = new RecordBatches({
    parallelAfterMs,
    gatherMs,
    handle: (records) =>
      new Promise((end) => {
        calls.push({ keys: records.map(({ key }) => key), end });
      }),
  });
  const keys = () => calls.map((call) => call.keys);
  return { batches, calls, keys };
}

afterEach(() => void jest.restoreAllMocks());

describe('calls of the handler', () => {
  test('wait a moment for records that arrive in parts, and start immediately after another call', async () => {
    const { batches, calls, keys } = batchesOf(60_000, 5);
    for (const key of ['a', 'b']) batches.push([pending(key)]);
    expect(keys()).toEqual([]);
    await until(() => calls.length === 1);
    batches.push([pending('c')]);
    expect(keys()).toEqual([['a', 'b']]);
    calls[0]?.end();
    await until(() => calls.length === 2);
    expect(keys()).toEqual([['a', 'b'], ['c']]);
  });

  test('are one while it is new: later records are collected for the next call', async () => {
    const { batches, calls, keys } = batchesOf(60_000);
    for (const key of ['a', 'b', 'c']) batches.push([pending(key)]);
    expect(keys()).toEqual([['a']]);
    calls[0]?.end();
    await until(() => calls.length === 2);
    expect(keys()).toEqual([['a'], ['b', 'c']]);
    calls[1]?.end();
    expect(await batches.stop()).toEqual([]);
  });

  test('run in parallel when one is slow, and later calls do not wait for it', async () => {
    const { batches, calls, keys } = batchesOf(50);
    // The first call counts as new, however long this takes.
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now());
    for (const key of ['a', 'b']) batches.push([pending(key)]);
    expect(keys()).toEqual([['a']]);
    clock.mockRestore();
    await until(() => calls.length === 2);
    calls[1]?.end();
    await until(() => batches.bytes() === 1);
    batches.push([pending('c')]);
    expect(keys()).toEqual([['a'], ['b'], ['c']]);
    calls[0]?.end();
    calls[2]?.end();
    await batches.stop();
  });
});
