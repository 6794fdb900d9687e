import { describe, expect, test } from '@jest/globals';
import { createBalance } from './balance.ts';

const due = { eventId: 'event-1', trigger: 'return.updated', path: '/a', at: 1_000 };

describe('balance', () => {
  test('reports a due delivery as missing until it arrives', () => {
    const balance = createBalance();
    balance.owe({ ...due });
    expect(balance.missing()).toEqual([due]);
    balance.arrive('event-1', '/a', 1_100);
    expect(balance.missing()).toEqual([]);
    expect(balance.all()).toEqual([{ ...due, deliveredAt: 1_100 }]);
  });

  test('accepts a delivery that arrived before its event was read', () => {
    const balance = createBalance();
    balance.arrive('event-1', '/a', 1_100);
    balance.owe({ ...due });
    expect(balance.missing()).toEqual([]);
    expect(balance.all()).toEqual([{ ...due, deliveredAt: 1_100 }]);
  });

  test('uses the first arrival, and counts a repeated event once', () => {
    const balance = createBalance();
    balance.owe({ ...due });
    balance.arrive('event-1', '/a', 1_100);
    balance.arrive('event-1', '/a', 1_200);
    balance.owe({ ...due });
    expect(balance.missing()).toEqual([]);
    expect(balance.all()).toEqual([{ ...due, deliveredAt: 1_100 }]);
  });

  test('ignores an arrival at another path', () => {
    const balance = createBalance();
    balance.arrive('event-1', '/b', 1_100);
    balance.owe({ ...due });
    expect(balance.missing()).toEqual([due]);
  });
});
