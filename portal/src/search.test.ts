import { timestampDate } from '@bufbuild/protobuf/wkt';
import { expect, test } from '@jest/globals';
import { dayEnd, dayStart, localMoment } from './api/dates.ts';
import { bigFilterId, filterId, unreadFilter } from './search.ts';

test.each(['#1001', 'R12', '012', '1,042', '１２', '-1', '0', '9007199254740993', '12.0'])(
  'a filter by the return “%s” is no filter by an id, and never none',
  (text) => {
    expect(unreadFilter({ return: text }, dayStart)).toEqual({ name: 'return', text });
    expect(filterId(text)).toBe('0');
    expect(bigFilterId(text)).toBe(-1n);
  },
);

test('filters that are absent or an id are read', () => {
  expect(unreadFilter({ return: '1042', from: '2026-11-24' }, dayStart)).toBeUndefined();
  expect(filterId('1042')).toBe('1042');
  expect(filterId(undefined)).toBeUndefined();
  expect([bigFilterId('1042'), bigFilterId(undefined)]).toEqual([1042n, 0n]);
});

test.each(['2026-02-31', '2026-13-01', '24.11.2026', '2026-11', 'yesterday'])(
  '“%s” is not a day of the calendar, and never no filter',
  (text) => {
    expect(unreadFilter({ to: text }, dayEnd)).toEqual({ name: 'to', text });
    expect(localMoment(`${text}T10:00`)).toBeUndefined();
  },
);

test('a leap day is a day, and its end is the first of March', () => {
  const end = dayEnd('2028-02-29');
  expect(end && timestampDate(end)).toEqual(new Date(2028, 2, 1));
});
