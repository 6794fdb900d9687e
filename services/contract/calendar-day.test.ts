import { describe, expect, test } from '@jest/globals';
import { createCalendar } from './calendar-day.ts';

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
