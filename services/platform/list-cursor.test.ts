import { describe, expect, test } from '@jest/globals';
import { bindCursor, placeInCursor } from './list-cursor.ts';

const PLACE = 'WyIxIiwiMiJd';
const at = new Date('2026-11-20T10:00:00Z');
const filters = { shopId: 7n, states: [1, 2], query: '#1001', from: at, isFlagged: true };

describe('a cursor', () => {
  test('returns its place in the list that it was made for', () => {
    const cursor = bindCursor(PLACE, filters);
    expect(cursor).toMatch(/^WyIxIiwiMiJd\.[\w-]{11}$/);
    expect(placeInCursor(cursor, filters)).toBe(PLACE);
  });

  test.each([
    ['the order and repetition of values', { states: [2, 1, 1] }],
    [
      'filters that select nothing',
      { to: undefined, sku: '', outcomes: [], returnId: 0n, sent: false },
    ],
    ['equal times', { from: new Date(at) }],
  ])('ignores %s', (_, same) => {
    const cursor = bindCursor(PLACE, filters);
    expect(placeInCursor(cursor, { ...filters, ...same })).toBe(PLACE);
  });

  test.each([
    ['another shop', { shopId: 8n }],
    ['another state', { states: [1] }],
    ['another text', { query: '#1002' }],
    ['another time', { from: new Date(at.getTime() + 1) }],
    ['one filter less', { isFlagged: false }],
    ['one filter more', { sku: 'x' }],
  ])('is rejected with %s', (_, other) => {
    const cursor = bindCursor(PLACE, filters);
    expect(() => placeInCursor(cursor, { ...filters, ...other })).toThrow(
      'cursor belongs to a list with other filters or another order: repeat those, or start without cursor',
    );
  });

  test('of the last page is empty, and starts the list', () => {
    expect(bindCursor('', filters)).toBe('');
    expect(placeInCursor('', filters)).toBe('');
  });

  test('of an earlier release is its place', () => {
    expect(placeInCursor(PLACE, filters)).toBe(PLACE);
  });
});
