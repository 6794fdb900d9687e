import { expect, test } from '@jest/globals';
import { createSendQueues, type PartitionBatch } from './kafka-send-queues.ts';

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
