const SECOND_MS = 1_000;
/** Maximum length of a `Retry-After` header. Longer texts are ignored. Characters. */
const MAX_LENGTH = 1_000;
/** The result for a number that is too large. */
const FOREVER_MS = Number.MAX_SAFE_INTEGER;

const MONTHS = 'Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec';
const TIME = '\\d{2}:\\d{2}:\\d{2}';
/** A number of seconds. RFC 9110 allows no fraction, but some servers send one. */
const SECONDS = '\\d+(?:\\.\\d+)?';
/** The three date formats of RFC 9110 section 5.6.7. Every recipient must accept all of them. */
const IMF_DATE = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \\d{2} (?:${MONTHS}) \\d{4} ${TIME} GMT`;
const RFC850_DATE = `(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \\d{2}-(?:${MONTHS})-\\d{2} ${TIME} GMT`;
const ASCTIME_DATE = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:${MONTHS}) [ \\d]\\d ${TIME} \\d{4}`;

const DATE = `(?:${IMF_DATE}|${RFC850_DATE}|${ASCTIME_DATE})`;
const WHOLE_DATE = new RegExp(`^${DATE}$`);
const ONE = `(?:${DATE}|${SECONDS})`;
const EACH = new RegExp(ONE, 'g');
/** Matches the whole header: one value, or several with commas between, as a proxy joins headers of one name. */
const LIST = new RegExp(`^${ONE}(?:[ \\t]*,[ \\t]*${ONE})*$`);

/**
 * Parses `Retry-After` (RFC 9110 section 10.2.3): seconds or an HTTP date. Of several values, the latest time counts.
 *
 * @param values all values of the header.
 * @param now the current time by the clock of the receiver; see {@link respondedAt}.
 * @returns milliseconds from `now` (0 for a past date); undefined without a valid value.
 */
export function parseRetryAfter(
  values: string | readonly string[] | undefined,
  now: Date,
): number | undefined {
  const found = [values ?? []].flat().flatMap((value) => readList(value.trim(), now));
  return found.length === 0 ? undefined : Math.max(...found);
}

/**
 * Returns the time of a response by its `Date` header (RFC 9110 section 6.6.1), or `now` without this header. The clock
 * of the receiver may be wrong, but its `Retry-After` is by the same clock.
 */
export function respondedAt(date: string | readonly string[] | undefined, now: Date): Date {
  if (typeof date !== 'string' || !WHOLE_DATE.test(date)) return now;
  return new Date(readDate(date, now) ?? now);
}

function readList(text: string, now: Date): number[] {
  if (text.length > MAX_LENGTH || !LIST.test(text)) return [];
  const items = text.match(EACH) ?? [];
  return items.flatMap((item) => readOne(item, now) ?? []);
}

function readOne(item: string, now: Date): number | undefined {
  if (/^\d/.test(item)) return Math.min(Math.ceil(Number(item) * SECOND_MS), FOREVER_MS);
  const untilMs = readDate(item, now);
  return untilMs === undefined ? undefined : Math.max(0, untilMs - now.getTime());
}

/** Returns milliseconds since 1970; undefined for a day or time that does not exist. */
function readDate(text: string, now: Date): number | undefined {
  const month = MONTHS.split('|').findIndex((name) => text.includes(name, 3));
  // The only numbers are day, year and time, in one of two orders. Weekday and month have no digits.
  const numbers = (text.match(/\d+/g) ?? []).map(Number);
  const isAsctime = !text.includes(',');
  const [day = 0, second = 0, third = 0, fourth = 0, fifth = 0] = numbers;
  const [year, hours, minutes, seconds] = isAsctime
    ? [fifth, second, third, fourth]
    : [second, third, fourth, fifth];
  if (hours > 23 || minutes > 59 || seconds > 60) return undefined;
  const full = text.includes('-') ? fullYear(year, now) : year;
  const midnight = Date.UTC(full, month, day);
  if (day < 1 || new Date(midnight).getUTCMonth() !== month) return undefined;
  return midnight + ((hours * 60 + minutes) * 60 + seconds) * SECOND_MS;
}

/** Returns the full year of a two-digit one. It is at most 50 years in the future (RFC 9110 section 5.6.7). */
function fullYear(lastTwo: number, now: Date): number {
  const thisYear = now.getUTCFullYear();
  const year = thisYear - (thisYear % 100) + lastTwo;
  return year > thisYear + 50 ? year - 100 : year;
}
