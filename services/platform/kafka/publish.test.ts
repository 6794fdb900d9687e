import { createRequire } from 'node:module';
import { expect, jest, test } from '@jest/globals';
import { stopIdleTimers } from './kafka.ts';
import { murmur2 } from './murmur2.ts';
import { createSendQueues, type PartitionBatch } from './producer.ts';

/** Queues, and the result of each record: its text after an acknowledgement, otherwise the error. */
function queues() {
  const results: string[] = [];
  const all = createSendQueues();
  const add = (partition: number, text: string, bytes = text.length) =>
    all.add(partition, {
      record: { key: text, value: Buffer.alloc(bytes), headers: {} },
      resolve: () => results.push(text),
      reject: (error) => results.push(`${text}: ${String(error)}`),
    });
  return { ...all, add, results };
}
const texts = (batches: readonly PartitionBatch[]) =>
  batches.map(({ partition, records }) => [partition, ...records.map(({ record }) => record.key)]);

test('one send carries the waiting records of all partitions, each in order', () => {
  const { add, take, ready } = queues();
  add(0, 'a');
  add(1, 'b');
  add(0, 'c');
  expect(texts(take(ready()))).toEqual([
    [0, 'a', 'c'],
    [1, 'b'],
  ]);
});

test('a partition in flight is not ready until its batch is sent', () => {
  const { add, take, ready, sent, isProven, results } = queues();
  add(0, 'a');
  const [batch] = take(ready());
  add(0, 'b');
  expect(ready()).toEqual([]);
  expect(isProven(0)).toBe(false);
  if (batch) sent(batch);
  expect(isProven(0)).toBe(true);
  expect(results).toEqual(['a']);
  expect(ready()).toEqual([0]);
});

test('records behind a failed batch fail with it, those of other partitions do not', () => {
  const { add, take, ready, sent, failed, isProven, results } = queues();
  add(0, 'a');
  add(1, 'b');
  const [first, second] = take(ready());
  add(0, 'c');
  if (first) failed(first, 'lost');
  if (second) sent(second);
  expect(results).toEqual(['a: lost', 'c: lost', 'b']);
  expect([isProven(0), isProven(1)]).toEqual([false, true]);
  add(0, 'd');
  expect(texts(take(ready()))).toEqual([[0, 'd']]);
});

test('a send stays under a megabyte, except for a single larger record', () => {
  const { add, take, ready, sent } = queues();
  add(0, 'large', 2_000_000);
  add(1, 'half', 600_000);
  add(2, 'other half', 600_000);
  const first = take(ready());
  expect(texts(first)).toEqual([[0, 'large']]);
  const second = take(ready());
  expect(texts(second)).toEqual([[1, 'half']]);
  for (const batch of [...first, ...second]) sent(batch);
  expect(texts(take(ready()))).toEqual([[2, 'other half']]);
});

test('a send carries at most 500 records, and a busy partition does not delay the others', () => {
  const { add, take, ready, sent } = queues();
  for (let n = 0; n < 1_200; n += 1) add(0, `n${n}`);
  add(1, 'other');
  const counts: (readonly [number, number])[] = [];
  for (let batches = take(ready()); batches.length > 0; batches = take(ready())) {
    for (const { partition, records } of batches) counts.push([partition, records.length]);
    for (const batch of batches) sent(batch);
  }
  expect(counts).toEqual([
    [0, 500],
    [1, 1],
    [0, 499],
    [0, 201],
  ]);
});

// The expected values of Kafka's own tests, before the sign is dropped.
test.each([
  ['21', -973932308],
  ['foobar', -790332482],
  ['a-little-bit-long-string', -985981536],
  ['a-little-bit-longer-string', -1486304829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
  ['abc', 479470107],
])('murmur2 of %s is that of Kafka’s clients', (text, signed) => {
  expect(murmur2(text)).toBe(signed & 0x7fffffff);
});

/** The library's request queue of one connection. */
function requestQueue() {
  const RequestQueue = createRequire(import.meta.url)('kafkajs/src/network/requestQueue/index.js');
  const logger = { debug: () => {} };
  const queue = new RequestQueue({ maxInFlightRequests: 1, requestTimeout: 1_000, logger });
  const sent: number[] = [];
  const push = (correlationId: number) =>
    queue.push({
      entry: { correlationId, apiName: 'test', resolve: () => {}, reject: () => {} },
      expectResponse: true,
      sendRequest: () => sent.push(correlationId),
    });
  const answer = (correlationId: number) =>
    queue.fulfillRequest({ correlationId, payload: Buffer.alloc(0), size: 0 });
  return { queue, sent, push, answer };
}

test('a connection without pending requests has no timer', () => {
  stopIdleTimers();
  jest.useFakeTimers();
  try {
    const { push, answer } = requestQueue();
    push(1);
    answer(1);
    expect(jest.getTimerCount()).toBe(0);
  } finally {
    jest.useRealTimers();
  }
});

test('a waiting request is sent after the response to the request before it', () => {
  stopIdleTimers();
  const { sent, push, answer } = requestQueue();
  push(1);
  push(2);
  expect(sent).toEqual([1]);
  answer(1);
  expect(sent).toEqual([1, 2]);
  answer(2);
});

test('a request that waits for the end of a throttle is sent then', () => {
  stopIdleTimers();
  jest.useFakeTimers();
  try {
    const { queue, sent, push } = requestQueue();
    queue.maybeThrottle(500);
    push(1);
    expect(sent).toEqual([]);
    jest.advanceTimersToNextTimer();
    expect(sent).toEqual([1]);
  } finally {
    jest.useRealTimers();
  }
});
