import { describe, expect, test } from '@jest/globals';
import { ArrivalBook } from '../sink/arrival-book.ts';
import type { Arrival, Ending } from '../sink/protocol.ts';
import { inFlightAt, judge } from './judge.ts';

const PATHS = new Set(['/a', '/b']);
let count = 0;

function arrival(o: Partial<Arrival>): Arrival {
  count += 1;
  return {
    number: count,
    path: '/a',
    webhookId: 'msg_1',
    eventId: 'event-1',
    trigger: 'return.created',
    sequence: 1,
    at: 1_000,
    fromPort: 40_000,
    fault: '',
    accepted: true,
    sha256: 'same',
    about: null,
    ...o,
  };
}

const ended = ({ number }: Arrival, at: number): Ending => ({ number, at, answered: true });

function bookOf(arrivals: readonly Arrival[], endings: readonly Ending[] = []): ArrivalBook {
  const book = new ArrivalBook();
  book.add(arrivals, endings);
  return book;
}

describe('judge', () => {
  test('accepts one request for each id', () => {
    const book = bookOf([arrival({}), arrival({ webhookId: 'msg_2', path: '/b' })]);
    expect(judge(book, PATHS, [])).toEqual({ duplicates: 0, unexplained: [], violations: [] });
  });

  test('does not count a retry after a failure', () => {
    const book = bookOf([arrival({ accepted: false }), arrival({ at: 6_000 })]);
    expect(judge(book, PATHS, []).duplicates).toBe(0);
  });

  test.each([
    ['after its sender had waited in vain for as long as it must', 15_990, 0],
    ['although its sender hung up early', 3_000, 1],
  ])('a request that came again %s', (_name, endedAt, duplicates) => {
    const first = arrival({ at: 1_000 });
    const cutOff = { number: first.number, at: endedAt, answered: false };
    const book = bookOf([first, arrival({ at: 21_000 })], [cutOff]);
    expect(judge(book, PATHS, []).duplicates).toBe(duplicates);
  });

  test('a request that came again without a fault is unexplained', () => {
    const first = arrival({});
    const book = bookOf([first, arrival({ at: 9_000 })], [ended(first, 1_050)]);
    expect(judge(book, PATHS, [])).toMatchObject({
      duplicates: 1,
      unexplained: [expect.any(String)],
    });
  });

  test.each([
    ['was open at the fault', 5_000, true],
    ['was answered only just before', 1_900, true],
    ['was answered long before', 900, false],
  ])('a first request that %s', (_name, endedAt, isExplained) => {
    const first = arrival({ at: 800 });
    const book = bookOf([first, arrival({ at: 9_000 })], [ended(first, endedAt)]);
    const { unexplained } = judge(book, PATHS, [{ from: 2_000, to: 2_010 }]);
    expect(unexplained.length === 0).toBe(isExplained);
  });

  test('a fault explains one repeat of a delivery, two faults explain two', () => {
    const all = [arrival({ at: 1_900 }), arrival({ at: 9_000 }), arrival({ at: 9_500 })];
    const book = bookOf(all);
    const fault = { from: 2_000, to: 2_010 };
    expect(judge(book, PATHS, [fault]).unexplained).toHaveLength(1);
    expect(judge(book, PATHS, [fault, { ...fault }]).unexplained).toEqual([]);
  });

  test('a fault of another process explains no repeat', () => {
    const book = bookOf([arrival({}), arrival({ at: 9_000 })]);
    const fault = { from: 2_000, to: 2_010, ports: new Set([40_001]) };
    expect(judge(book, PATHS, [fault]).unexplained).toHaveLength(1);
  });

  test.each([
    ['the first on a connection of its, however late', 40_001, [], true],
    ['the first on another connection', 40_002, [], false],
    ['a second one on it', 40_001, [9_500], false],
  ])('what a stopped process sends when it goes on: %s', (_name, fromPort, before, isExplained) => {
    const others = arrival({ at: 5_000 });
    const earlier = before.map((at) => arrival({ at, fromPort, webhookId: 'msg_2', path: '/b' }));
    const again = arrival({ at: 11_000, fromPort });
    const book = bookOf([others, ...earlier, again], [ended(others, 5_050)]);
    const fault = { from: 2_000, to: 8_000, ports: new Set([40_001]) };
    expect(judge(book, PATHS, [fault]).unexplained.length === 0).toBe(isExplained);
  });

  test('a fault does not explain an earlier repeat', () => {
    const book = bookOf([arrival({}), arrival({ at: 1_500 })]);
    expect(judge(book, PATHS, [{ from: 2_000, to: 2_010 }]).unexplained).toHaveLength(1);
  });

  test.each([
    ['a bad signature', { fault: 'No matching signature found' }],
    ['other bytes under one id', { sha256: 'other' }],
    ['another event under one id', { eventId: 'event-2' }],
    ['one id at two endpoints', { path: '/b' }],
    ['one event under two ids', { webhookId: 'msg_2' }],
  ])('%s is a violation', (_name, wrong) => {
    const book = bookOf([arrival({ accepted: false }), arrival({ at: 6_000, ...wrong })]);
    expect(judge(book, PATHS, []).violations).not.toEqual([]);
  });

  test('another trial is ignored, also after its paths are forgotten', () => {
    const book = bookOf([arrival({ path: '/c', fault: 'wrong' }), arrival({})]);
    expect(judge(book, PATHS, []).violations).toEqual([]);
    book.forget(new Set(['/a']));
    expect(book.ids(PATHS)).toEqual([]);
  });
});

test('an unrecorded result counts as in flight, however long ago it was answered', () => {
  const first = arrival({ at: 100 });
  const book = bookOf([first, arrival({ at: 9_000 })], [ended(first, 200)]);
  const fault = { from: 5_000, to: 5_010, unrecorded: new Set(['msg_1']) };
  expect(judge(book, PATHS, [fault]).unexplained).toEqual([]);
});

test('in flight are requests that are open, or were answered within the last second', () => {
  const open = { ...arrival({ at: 1_000 }) };
  const justAnswered = { ...arrival({ at: 1_000 }), endedAt: 1_500 };
  const recorded = { ...arrival({ at: 100 }), endedAt: 900 };
  const later = { ...arrival({ at: 3_000 }) };
  const all = [open, justAnswered, recorded, later];
  expect(inFlightAt(all, { from: 2_000, to: 2_010 })).toEqual([open, justAnswered]);
});
