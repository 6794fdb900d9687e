import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { pauseAfter } from '../../webhooks/delivery/attempt/retry-schedule.ts';
import { parseRetryAfter } from './retry-after.ts';

const now = new Date('2026-11-21T10:00:00Z');
const DAY_MS = 86_400_000;

describe('Retry-After', () => {
  test.each([
    ['120', 120_000],
    [' 7 ', 7_000],
    ['\t7\t', 7_000],
    ['0', 0],
    ['007', 7_000],
    ['1.5', 1_500],
    ['0.0001', 1],
    ['99999999999999999999', Number.MAX_SAFE_INTEGER],
    ['9'.repeat(400), Number.MAX_SAFE_INTEGER],
    ['Sat, 21 Nov 2026 10:01:00 GMT', 60_000],
    ['Sat, 21 Nov 2026 09:00:00 GMT', 0],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['Mon, 21 Nov 2026 10:01:00 GMT', 60_000],
    ['Saturday, 21-Nov-26 10:01:00 GMT', 60_000],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
    ['Sat Nov 21 10:01:00 2026', 60_000],
    ['Tue Dec  1 10:00:00 2026', 10 * DAY_MS],
    ['Sun, 28 Feb 2027 23:59:60 GMT', Date.UTC(2027, 2, 1) - now.getTime()],
    ['120, 60', 120_000],
    ['60,120', 120_000],
    ['5, Sat, 21 Nov 2026 10:01:00 GMT', 60_000],
    [['5', '30', 'soon'], 30_000],
  ])('%j is %j ms', (value, expected) => {
    expect(parseRetryAfter(value, now)).toBe(expected);
  });

  test.each([
    '-5',
    '+5',
    '1e3',
    '0x10',
    '.5',
    '5.',
    '1,5s',
    '5 seconds',
    'NaN',
    'Infinity',
    'soon',
    ',',
    '5,',
    '٣',
    '５',
    '2026-11-21T10:01:00Z',
    'Sat, 99 Nov 2026 10:01:00 GMT',
    'Sat, 00 Nov 2026 10:01:00 GMT',
    'Sun, 29 Feb 2026 10:01:00 GMT',
    'Sat, 21 Nov 2026 24:00:00 GMT',
    'Sat, 21 Nov 2026 10:60:00 GMT',
    'Sat, 21 Nov 2026 10:01:00 UTC',
    'Sat, 21 Nov 2026 10:01:00 +0100',
    'Sat, 21 Foo 2026 10:01:00 GMT',
    'Sat, 21 Nov 26 10:01:00 GMT',
    '5'.repeat(2_000),
    '',
    undefined,
    [],
  ])('%j says nothing', (value) => {
    expect(parseRetryAfter(value, now)).toBeUndefined();
  });
});

/** What a receiver may request: the header, and the time before which no retry may be sent. */
const promise = fc.oneof(
  fc.nat({ max: 10 * 86_400 }).map((seconds) => ({ text: String(seconds), ms: seconds * 1_000 })),
  fc
    .tuple(fc.nat({ max: 10 * 86_400 }), fc.constantFrom('imf', 'rfc850', 'asctime'))
    .map(([seconds, form]) => ({
      text: written(new Date(now.getTime() + seconds * 1_000), form),
      ms: seconds * 1_000,
    })),
);

/** A date in one of the three forms, from JavaScript's form of the first. */
function written(date: Date, form: string): string {
  const imf = date.toUTCString();
  const [, day = '', month = '', year = '', time = ''] = imf.split(' ');
  const weekday = date.toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' });
  if (form === 'rfc850') return `${weekday}, ${day}-${month}-${year.slice(2)} ${time} GMT`;
  const shortDay = day.startsWith('0') ? ` ${day.slice(1)}` : day;
  return form === 'asctime' ? `${weekday.slice(0, 3)} ${month} ${shortDay} ${time} ${year}` : imf;
}

test('no retry is earlier than requested, up to a day, and none later than a day and a fifth', () => {
  fc.assert(
    fc.property(
      fc.array(promise, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 10 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (promises, isJoined, nth, random) => {
        const texts = promises.map(({ text }) => text);
        const asked = parseRetryAfter(isJoined ? texts.join(', ') : texts, now);
        const promised = Math.max(...promises.map(({ ms }) => ms));
        const pause = pauseAfter(nth, asked, () => random) ?? 0;
        expect(pause).toBeGreaterThanOrEqual(Math.min(promised, DAY_MS));
        expect(pause).toBeLessThanOrEqual((6 * DAY_MS) / 5);
      },
    ),
    { numRuns: 1_000 },
  );
});

test('any other text throws no error, and neither shortens a pause nor extends it beyond a day', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string({ unit: 'binary' }),
        fc.stringMatching(/^[-+\d., :A-Za-z]*$/),
      ),
      (text) => {
        const asked = parseRetryAfter(text, now);
        const pause = pauseAfter(1, asked, () => 0) ?? 0;
        expect(pause).toBeGreaterThanOrEqual(5_000);
        expect(pause).toBeLessThanOrEqual(DAY_MS);
      },
    ),
    { numRuns: 1_000 },
  );
});
