import { expect, test } from '@jest/globals';
import { createChangeBook } from './change-book.ts';

const change = (trigger: string, key = '1:1') => ({ trigger, key, at: 0 });
const stored = (eventId: string, trigger: string, key = '1:1') => ({ eventId, trigger, key });

test('two labels of one return want two events', () => {
  const book = createChangeBook();
  const acknowledged = [change('label.created'), change('label.created')];
  book.add(stored('a', 'label.created'));
  book.add(stored('a', 'label.created'));
  expect(book.missing(acknowledged)).toEqual(['label.created of 1:1']);
  book.add(stored('b', 'label.created'));
  expect(book.missing(acknowledged)).toEqual([]);
  expect(book.extra(acknowledged)).toEqual([]);
});

test('an event that no change made is one too many', () => {
  const book = createChangeBook();
  for (const id of ['a', 'b']) book.add(stored(id, 'return.closed'));
  book.add(stored('c', 'return.closed', '1:2'));
  expect(book.extra([change('return.closed')])).toEqual([
    'return.closed of 1:1: 1 more than changes',
  ]);
});
