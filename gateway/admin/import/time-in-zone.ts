import { parseTime } from '../../../services/contract/time.ts';

const LOCAL = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?)?$/;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/**
 * Parses an ISO 8601 time. A time without an offset is local time in `zone`; a date alone means midnight. A time in an
 * hour that the zone skips gets the offset before the change. A time in a repeated hour is in the first of the two.
 *
 * @param zone name of the IANA database, such as `Europe/London`.
 * @returns milliseconds since 1970; undefined when the text is not a valid time.
 */
export function timeInZone(text: string, zone: string): number | undefined {
  const local = LOCAL.exec(text);
  if (!local) return parseTime(text)?.getTime();
  const [, day, minute = '00:00', second = ':00'] = local;
  const wall = parseTime(`${day}T${minute}${second}Z`)?.getTime();
  if (wall === undefined) return undefined;
  const before = wall - offsetAt(wall - DAY_MS, zone);
  const after = wall - offsetAt(wall + DAY_MS, zone);
  const isSameTime = (at: number) => at + offsetAt(at, zone) === wall;
  return isSameTime(before) || !isSameTime(after) ? before : after;
}

/** The zone's offset from UTC at a time. Milliseconds. */
function offsetAt(at: number, zone: string): number {
  const format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' });
  const name = format.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? '';
  const [, sign = '+', hours = '0', minutes = '0'] = /GMT([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * MINUTE_MS;
}

/** Whether a text names a time zone. */
export function isZone(text: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }) !== undefined;
  } catch {
    return false;
  }
}

/** Forms of dates: ISO 8601, or the order of the parts, and the digits of the year. */
export const DATE_FORMS = [
  'iso',
  'dd/mm/yyyy',
  'mm/dd/yyyy',
  'dd/mm/yy',
  'mm/dd/yy',
  'yy/mm/dd',
] as const;
export type DateForm = (typeof DATE_FORMS)[number];

const YEAR_FIRST = ['yyyy', 'mm', 'dd'];
const WITHOUT_SIGNS = /^(\d{4})(\d{2})(\d{2})(?!\d)/;
const DATE = /^(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})(?!\d)(.*)$/;
const TIME =
  /^(?:[t ,]+(\d{1,2})[:.h](\d{2})(?:[:.](\d{2})(?:[.,]\d+)?)?(?: ?([ap])\.?m\.?)?(?: ?(?:(z|utc|gmt)|([+-]\d{2}):?(\d{2})?))?)?$/i;

/**
 * Writes a date of this form, with or without a time, as ISO 8601. A date with a year of four digits at its beginning is
 * read in every form. Other texts stay as they are.
 */
export function isoDate(text: string, form: DateForm): string {
  const date = DATE.exec(text.trim().replace(WITHOUT_SIGNS, '$1-$2-$3'));
  const time = TIME.exec(date?.[5] ?? '');
  if (!date || !time) return text;
  const parts = [date[1], date[3], date[4]];
  const names = date[1]?.length === 4 ? YEAR_FIRST : form.split('/');
  const part = (letter: string) => parts[names.findIndex((name) => name.startsWith(letter))] ?? '';
  const year = part('y');
  if (!names.includes('y'.repeat(year.length || 1))) return text;
  const [, hour = '0', minute = '00', second = '00', half, utc, hours, minutes = '00'] = time;
  const ofDay = half ? (Number(hour) % 12) + (half.toLowerCase() === 'p' ? 12 : 0) : hour;
  const two = (digits: string | number) => String(digits).padStart(2, '0');
  const offset = hours ? `${hours}:${minutes}` : utc && 'Z';
  const day = `${year.padStart(4, '20')}-${two(part('m'))}-${two(part('d'))}`;
  return `${day}T${two(ofDay)}:${minute}:${second}${offset ?? ''}`;
}

/** The forms in which a text is a date. */
export function formsOf(text: string): DateForm[] {
  const inUtc = (form: DateForm) => isoDate(text, form).replace(/T[\d:]{8}$/, '$&Z');
  return DATE_FORMS.filter((form) => parseTime(inUtc(form)) !== undefined);
}

/** The lines of a map of columns that state these forms. */
export const linesOf = (forms: readonly DateForm[]): string =>
  forms.map((form) => `"dates": "${form}"`).join(' or ');
