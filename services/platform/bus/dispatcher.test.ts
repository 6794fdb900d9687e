import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { until } from '../../../test/kit/until.ts';
import { Dispatcher } from './dispatcher.ts';
import type { ReceivedRecord } from './event-bus.ts';

function delivery(key: string) {
  const record: ReceivedRecord = {
    topic: 'events',
    key,
    position: key,
    value: new Uint8Array(1),
    headers: {},
  };
  return { record, done: () => {} };
}

/** A dispatcher whose calls last until the test ends them, and the keys of each call. */
function dispatcherOf(besideAfterMs: number, gatherMs = 0) {
  const calls: { keys: string[]; end: () => void }[] = [];
  const dispatcher = new Dispatcher({
    ...{ besideAfterMs, gatherMs },
    handle: (records) =>
      new Promise((end) => {
        calls.push({ keys: records.map(({ key }) => key), end });
      }),
  });
  const keys = () => calls.map((call) => call.keys);
  return { dispatcher, calls, keys };
}

afterEach(() => void jest.restoreAllMocks());

describe('calls of the handler', () => {
  test('wait a moment for records that arrive in parts, and start at once after another call', async () => {
    const { dispatcher, calls, keys } = dispatcherOf(60_000, 5);
    for (const key of ['a', 'b']) dispatcher.push([delivery(key)]);
    expect(keys()).toEqual([]);
    await until(() => calls.length === 1);
    dispatcher.push([delivery('c')]);
    expect(keys()).toEqual([['a', 'b']]);
    calls[0]?.end();
    await until(() => calls.length === 2);
    expect(keys()).toEqual([['a', 'b'], ['c']]);
  });

  test('are one while it is new: later records are collected for the next call', async () => {
    const { dispatcher, calls, keys } = dispatcherOf(60_000);
    for (const key of ['a', 'b', 'c']) dispatcher.push([delivery(key)]);
    expect(keys()).toEqual([['a']]);
    calls[0]?.end();
    await until(() => calls.length === 2);
    expect(keys()).toEqual([['a'], ['b', 'c']]);
    calls[1]?.end();
    expect(await dispatcher.stop()).toEqual([]);
  });

  test('are several when one takes long, and the others do not wait for it again', async () => {
    const { dispatcher, calls, keys } = dispatcherOf(50);
    // The first call counts as new, however long this takes.
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now());
    for (const key of ['a', 'b']) dispatcher.push([delivery(key)]);
    expect(keys()).toEqual([['a']]);
    clock.mockRestore();
    await until(() => calls.length === 2);
    calls[1]?.end();
    await until(() => dispatcher.bytes() === 1);
    dispatcher.push([delivery('c')]);
    expect(keys()).toEqual([['a'], ['b'], ['c']]);
    calls[0]?.end();
    calls[2]?.end();
    await dispatcher.stop();
  });
});
