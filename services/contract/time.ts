// Parses and formats times of the interface.

const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;
const FIRST_MS = Date.UTC(2001, 0, 1) - 63_113_904_000_000; // 0001-01-01T00:00:00Z
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const MINUTE_MS = 60_000;

/**
 * Parses an RFC 3339 time: any offset, `T` and `Z` in either case, any fraction (cut to milliseconds). A leap second
 * counts as the second after it. Returns undefined when the text is no such time, or when its year in UTC does not have
 * four digits.
 */
export function parseTime(text: string): Date | undefined {
  const match = RFC3339.exec(text);
  if (!match) return undefined;
  const part = (index: number) => Number(match[index] ?? 0);
  const [year, month, day, hour, minute, second] = [1, 2, 3, 4, 5, 6].map(part);
  if (year === undefined || month === undefined || day === undefined) return undefined;
  if (hour === undefined || minute === undefined || second === undefined) return undefined;
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return undefined;
  if (hour > 23 || minute > 59 || second > 60 || part(9) > 23 || part(10) > 59) return undefined;

  const offset = (match[8] === '-' ? -1 : 1) * (part(9) * 60 + part(10)) * MINUTE_MS;
  const wholeMinute = utc(year, month, day) + (hour * 60 + minute) * MINUTE_MS - offset;
  if (second === 60 && !endsMonth(wholeMinute)) return undefined;
  const fraction = Math.trunc(Number(`0.${(match[7] ?? '0').slice(0, 3)}`) * 1000 + 1e-6);
  const time = wholeMinute + second * 1000 + fraction;
  return time >= FIRST_MS && time <= LAST_MS ? new Date(time) : undefined;
}

export const NO_DAY_RULE = 'must be on a day that exists';

/** Whether a text has the form of an RFC 3339 time, but its day does not exist, such as 30 February. */
export function isOnNoDay(text: string): boolean {
  const [, year, month, day] = RFC3339.exec(text) ?? [];
  if (year === undefined || Number(month) < 1 || Number(month) > 12) return false;
  return Number(day) < 1 || Number(day) > daysIn(Number(year), Number(month));
}

/** Formats a time in UTC as `YYYY-MM-DDThh:mm:ss+00:00`. The interface calls this form ISO 8601. */
export function isoTime(time: Date): string {
  return `${time.toISOString().slice(0, 19)}+00:00`;
}

/**
 * Formats a time in UTC as `YYYY-MM-DD hh:mm:ss`, as return details do with `created_at`, `updated_at` and `edited_at`.
 */
export function plainTime(time: Date): string {
  return time.toISOString().slice(0, 19).replace('T', ' ');
}

function daysIn(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

/** The first millisecond of a day in UTC. Sets the year separately, because Date.UTC adds 1900 to years below 100. */
function utc(year: number, month: number, day: number): number {
  return new Date(0).setUTCFullYear(year, month - 1, day);
}

/** Whether this minute is the last of a month in UTC. Only such a minute can end with a leap second. */
function endsMonth(minute: number): boolean {
  const next = new Date(minute + MINUTE_MS);
  return next.getUTCDate() === 1 && next.getUTCHours() === 0 && next.getUTCMinutes() === 0;
}
