import { describe, expect, test } from '@jest/globals';
import { type DateForm, isoDate, timeInZone } from './time-in-zone.ts';

const london = (text: string): string | undefined => {
  const at = timeInZone(text, 'Europe/London');
  return at === undefined ? undefined : new Date(at).toISOString();
};

describe('a time in London', () => {
  test.each([
    ['2010-12-01T14:33:00', '2010-12-01T14:33:00.000Z'],
    ['2011-07-01T14:33', '2011-07-01T13:33:00.000Z'],
    ['2011-07-01 14:33:09', '2011-07-01T13:33:09.000Z'],
    ['2011-07-01', '2011-06-30T23:00:00.000Z'],
    ['2011-07-01T14:33:00Z', '2011-07-01T14:33:00.000Z'],
    ['2011-07-01T14:33:00+05:30', '2011-07-01T09:03:00.000Z'],
    // Clocks went forward at 01:00 on 27 March 2011, and back at 02:00 on 30 October.
    ['2011-03-27T00:59:59', '2011-03-27T00:59:59.000Z'],
    ['2011-03-27T01:30:00', '2011-03-27T01:30:00.000Z'],
    ['2011-03-27T02:00:00', '2011-03-27T01:00:00.000Z'],
    ['2011-10-30T01:30:00', '2011-10-30T00:30:00.000Z'],
    ['2011-10-30T02:00:00', '2011-10-30T02:00:00.000Z'],
  ])('%s is %s', (text, expected) => {
    expect(london(text)).toBe(expected);
  });

  test.each(['yesterday', '', '2011-02-30', '2011-07-01T25:00', '1/7/2011 14:33'])(
    '%j is not a time',
    (text) => {
      expect(london(text)).toBeUndefined();
    },
  );
});

describe('a date of a file', () => {
  test.each<[string, DateForm, string]>([
    ['2011/12/9 8:26', 'iso', '2011-12-09T08:26:00'],
    ['2011.12.09', 'mm/dd/yyyy', '2011-12-09T00:00:00'],
    ['20111209 08:26', 'iso', '2011-12-09T08:26:00'],
    ['2011-12-09 08:26:05.123', 'iso', '2011-12-09T08:26:05'],
    ['2011-12-09 08:26:05 -0500', 'iso', '2011-12-09T08:26:05-05:00'],
    ['2011-12-09 08:26:05+00', 'iso', '2011-12-09T08:26:05+00:00'],
    ['2011-12-09 08:26:05 UTC', 'iso', '2011-12-09T08:26:05Z'],
    ['9/12/2011 12:26 AM', 'dd/mm/yyyy', '2011-12-09T00:26:00'],
    ['9-12-2011, 1:26:05 p.m.', 'mm/dd/yyyy', '2011-09-12T13:26:05'],
    ['09.12.2011 08.26', 'dd/mm/yyyy', '2011-12-09T08:26:00'],
    ['09.12.11 8h26', 'dd/mm/yy', '2011-12-09T08:26:00'],
    ['9/12/11', 'mm/dd/yy', '2011-09-12T00:00:00'],
    ['11/12/09', 'yy/mm/dd', '2011-12-09T00:00:00'],
  ])('%j, which is %s, is %s', (text, form, iso) => {
    expect(isoDate(text, form)).toBe(iso);
  });

  test.each<[string, DateForm]>([
    ['9/12/2011', 'iso'],
    ['9/12/11', 'dd/mm/yyyy'],
    ['9/12/2011', 'dd/mm/yy'],
    ['9/12-2011', 'dd/mm/yyyy'],
    ['9/12/211', 'dd/mm/yyyy'],
    ['9/12/2011 8', 'dd/mm/yyyy'],
    ['201112', 'iso'],
  ])('%j is not %s', (text, form) => {
    expect(isoDate(text, form)).toBe(text);
  });
});
