import { expect, test } from '@jest/globals';
import { compareChanges } from './change-comparison.ts';

const change = (trigger: string, key = '1:1') => ({ trigger, key, at: 0 });
const stored = (eventId: string, trigger: string, key = '1:1') => ({ eventId, trigger, key });

test('reports a missing event when two labels of a return have one event', () => {
  const comparison = compareChanges();
  const acknowledged = [change('label.created'), change('label.created')];
  comparison.add(stored('a', 'label.created'));
  comparison.add(stored('a', 'label.created'));
  expect(comparison.missing(acknowledged)).toEqual(['label.created of 1:1']);
  comparison.add(stored('b', 'label.created'));
  expect(comparison.missing(acknowledged)).toEqual([]);
  expect(comparison.extra(acknowledged)).toEqual([]);
});

test('reports an event that no change made', () => {
  const comparison = compareChanges();
  for (const id of ['a', 'b']) comparison.add(stored(id, 'return.closed'));
  comparison.add(stored('c', 'return.closed', '1:2'));
  expect(comparison.extra([change('return.closed')])).toEqual([
    'return.closed of 1:1: 1 more than changes',
  ]);
});
