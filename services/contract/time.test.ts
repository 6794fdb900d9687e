import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isOnNoDay, isoTime, parseTime, plainTime } from './time.ts';
import { createCalendar } from './versions.ts';

describe('reading RFC 3339', () => {
  test.each([
    ['2026-07-01T12:00:00Z', '2026-07-01T12:00:00.000Z'],
    ['2026-07-01t12:00:00z', '2026-07-01T12:00:00.000Z'],
    ['2026-07-01T12:00:00+02:00', '2026-07-01T10:00:00.000Z'],
    ['2026-07-01T12:00:00-05:30', '2026-07-01T17:30:00.000Z'],
    ['2026-07-01T12:00:00-00:00', '2026-07-01T12:00:00.000Z'],
    ['2026-07-01T12:00:00.5Z', '2026-07-01T12:00:00.500Z'],
    ['2026-07-01T12:00:00.29Z', '2026-07-01T12:00:00.290Z'],
    ['2026-07-01T12:00:00.123456789Z', '2026-07-01T12:00:00.123Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
    ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2017-01-01T00:59:60+01:00', '2017-01-01T00:00:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000Z'],
  ])('%s is %s', (text, expected) => {
    expect(parseTime(text)?.toISOString()).toBe(expected);
  });

  test.each([
    '2026-07-01',
    '2026-07-01T12:00:00',
    '2026-07-01 12:00:00Z',
    '2026-07-01T12:00Z',
    '2026-7-1T12:00:00Z',
    '2026-13-01T12:00:00Z',
    '2026-00-01T12:00:00Z',
    '2026-02-29T12:00:00Z',
    '1900-02-29T12:00:00Z',
    '2026-04-31T12:00:00Z',
    '2026-07-00T12:00:00Z',
    '2026-07-01T24:00:00Z',
    '2026-07-01T12:60:00Z',
    '2026-07-01T12:00:60Z',
    '2026-07-01T23:59:61Z',
    '2026-07-01T12:00:00+24:00',
    '2026-07-01T12:00:00+02:60',
    '2026-07-01T12:00:00+0200',
    '2026-07-01T12:00:00.Z',
    ' 2026-07-01T12:00:00Z',
    '2026-07-01T12:00:00Z\n',
    '٢٠٢٦-07-01T12:00:00Z',
    '0000-12-31T23:59:59Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '',
  ])('rejects %j', (text) => {
    expect(parseTime(text)).toBeUndefined();
  });

  test('parses the times that it formats', () => {
    const years = { min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true };
    fc.assert(
      fc.property(fc.date(years), (time) => {
        const seconds = Math.floor(time.getTime() / 1000) * 1000;
        expect(parseTime(isoTime(time))?.getTime()).toBe(seconds);
        expect(plainTime(time)).toBe(isoTime(time).replace('T', ' ').slice(0, 19));
      }),
    );
  });
});

test.each([
  ['2026-02-30T00:00:00Z', true],
  ['2026-04-31T00:00:00+02:00', true],
  ['2028-02-29T00:00:00Z', false],
  ['2026-13-01T00:00:00Z', false],
  ['2026-02-30', false],
])('%s is on no day: %s', (text, expected) => {
  expect(isOnNoDay(text)).toBe(expected);
});

test('times are written in UTC, 24 h', () => {
  const time = new Date('2026-07-01T23:05:09.999+02:00');
  expect(isoTime(time)).toBe('2026-07-01T21:05:09+00:00');
  expect(plainTime(time)).toBe('2026-07-01 21:05:09');
});

const calendar = () => createCalendar(['2026-07', '2026-10'], '/changes');
const at = (text: string) => new Date(text);

describe('a day of the calendar', () => {
  test('is computed once for all its hours', () => {
    const dayOf = calendar();
    const first = dayOf(at('2027-06-30T00:00:00Z'));
    expect(dayOf(at('2027-06-30T23:59:59.999Z'))).toBe(first);
    expect(dayOf(at('2027-07-01T00:00:00Z'))).not.toBe(first);
  });

  test('ends at midnight in UTC', () => {
    const dayOf = calendar();
    const stageAt = (text: string) => dayOf(at(text)).versions.get('2026-07')?.stage;
    expect(stageAt('2027-06-30T23:59:59.999Z')).toBe('active');
    expect(stageAt('2027-07-01T00:00:00Z')).toBe('deprecated');
    expect(stageAt('2027-09-30T23:59:59.999Z')).toBe('deprecated');
    expect(stageAt('2027-10-01T00:00:00Z')).toBe('sunset');
  });

  test('may be before 1970', () => {
    expect(calendar()(at('1969-12-31T23:59:59Z'))).toMatchObject({ supported: ['2026-07'] });
  });

  test('is removed from the memory after many other days', () => {
    const dayOf = calendar();
    const first = dayOf(at('2026-11-21T12:00:00Z'));
    for (let day = 1; day <= 16; day += 1) dayOf(new Date(Date.UTC(2027, 0, day)));
    const again = dayOf(at('2026-11-21T12:00:00Z'));
    expect(again).not.toBe(first);
    expect(again).toEqual(first);
  });
});
