import { describe, expect, test } from '@jest/globals';
import { timeInZone } from './time-in-zone.ts';

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
