import { describe, expect, test } from '@jest/globals';
import { ArrivalLog } from '../sink/arrival-log.ts';
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

function logOf(arrivals: readonly Arrival[], endings: readonly Ending[] = []): ArrivalLog {
  const log = new ArrivalLog();
  log.add(arrivals, endings);
  return log;
}

describe('judge', () => {
  test('accepts one request with each id', () => {
    const log = logOf([arrival({}), arrival({ webhookId: 'msg_2', path: '/b' })]);
    expect(judge(log, PATHS, [])).toEqual({ duplicates: 0, unexplained: [], violations: [] });
  });

  test('does not count a retry after a failure as a duplicate', () => {
    const log = logOf([arrival({ accepted: false }), arrival({ at: 6_000 })]);
    expect(judge(log, PATHS, []).duplicates).toBe(0);
  });

  test.each([
    ['after the whole time limit of its sender', 15_990, 0],
    ['although the sender disconnected early', 3_000, 1],
  ])('a request that was repeated %s', (_name, endedAt, duplicates) => {
    const first = arrival({ at: 1_000 });
    const cutOff = { number: first.number, at: endedAt, answered: false };
    const log = logOf([first, arrival({ at: 21_000 })], [cutOff]);
    expect(judge(log, PATHS, []).duplicates).toBe(duplicates);
  });

  test('a request that was repeated without a fault is unexplained', () => {
    const first = arrival({});
    const log = logOf([first, arrival({ at: 9_000 })], [ended(first, 1_050)]);
    expect(judge(log, PATHS, [])).toMatchObject({
      duplicates: 1,
      unexplained: [expect.any(String)],
    });
  });

  test.each([
    ['was open at the fault', 5_000, true],
    ['was answered only just before', 1_900, true],
    ['was answered long before', 900, false],
  ])('a fault and a first request that %s', (_name, endedAt, isExplained) => {
    const first = arrival({ at: 800 });
    const log = logOf([first, arrival({ at: 9_000 })], [ended(first, endedAt)]);
    const { unexplained } = judge(log, PATHS, [{ from: 2_000, to: 2_010 }]);
    expect(unexplained.length === 0).toBe(isExplained);
  });

  test('one fault explains one repeat of a delivery, two faults explain two', () => {
    const all = [arrival({ at: 1_900 }), arrival({ at: 9_000 }), arrival({ at: 9_500 })];
    const log = logOf(all);
    const fault = { from: 2_000, to: 2_010 };
    expect(judge(log, PATHS, [fault]).unexplained).toHaveLength(1);
    expect(judge(log, PATHS, [fault, { ...fault }]).unexplained).toEqual([]);
  });

  test('a fault of another process explains no repeat', () => {
    const log = logOf([arrival({}), arrival({ at: 9_000 })]);
    const fault = { from: 2_000, to: 2_010, ports: new Set([40_001]) };
    expect(judge(log, PATHS, [fault]).unexplained).toHaveLength(1);
  });

  test.each([
    ['the first on a connection of the process', 40_001, [], true],
    ['the first on a connection of another process', 40_002, [], false],
    ['the second on a connection of the process', 40_001, [9_500], false],
  ])(
    'a repeat that a frozen process sends after it continues: %s',
    (_name, fromPort, before, isExplained) => {
      const others = arrival({ at: 5_000 });
      const earlier = before.map((at) => arrival({ at, fromPort, webhookId: 'msg_2', path: '/b' }));
      const again = arrival({ at: 11_000, fromPort });
      const log = logOf([others, ...earlier, again], [ended(others, 5_050)]);
      const fault = { from: 2_000, to: 8_000, ports: new Set([40_001]) };
      expect(judge(log, PATHS, [fault]).unexplained.length === 0).toBe(isExplained);
    },
  );

  test('a fault does not explain an earlier repeat', () => {
    const log = logOf([arrival({}), arrival({ at: 1_500 })]);
    expect(judge(log, PATHS, [{ from: 2_000, to: 2_010 }]).unexplained).toHaveLength(1);
  });

  test.each([
    ['a bad signature', { fault: 'No matching signature found' }],
    ['other bytes under one id', { sha256: 'other' }],
    ['another event under one id', { eventId: 'event-2' }],
    ['one id at two endpoints', { path: '/b' }],
    ['one event under two ids', { webhookId: 'msg_2' }],
  ])('%s is a violation', (_name, wrong) => {
    const log = logOf([arrival({ accepted: false }), arrival({ at: 6_000, ...wrong })]);
    expect(judge(log, PATHS, []).violations).not.toEqual([]);
  });

  test('requests of other trials are ignored, also after their paths were deleted', () => {
    const log = logOf([arrival({ path: '/c', fault: 'wrong' }), arrival({})]);
    expect(judge(log, PATHS, []).violations).toEqual([]);
    log.delete(new Set(['/a']));
    expect(log.ids(PATHS)).toEqual([]);
  });
});

test('a request without a recorded result counts as in flight', () => {
  const first = arrival({ at: 100 });
  const log = logOf([first, arrival({ at: 9_000 })], [ended(first, 200)]);
  const fault = { from: 5_000, to: 5_010, unrecorded: new Set(['msg_1']) };
  expect(judge(log, PATHS, [fault]).unexplained).toEqual([]);
});

test('open requests, and those with a response within the last second, are in flight', () => {
  const open = { ...arrival({ at: 1_000 }) };
  const justAnswered = { ...arrival({ at: 1_000 }), endedAt: 1_500 };
  const recorded = { ...arrival({ at: 100 }), endedAt: 900 };
  const later = { ...arrival({ at: 3_000 }) };
  const all = [open, justAnswered, recorded, later];
  expect(inFlightAt(all, { from: 2_000, to: 2_010 })).toEqual([open, justAnswered]);
});
