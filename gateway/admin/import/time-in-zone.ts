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

/** Forms of local dates: ISO 8601, or with day and month in this order. */
export type DateForm = 'iso' | 'dd/mm/yyyy' | 'mm/dd/yyyy';

const WITH_ORDER =
  /^(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})(?:,? (\d{1,2}):(\d{2})(?::(\d{2}))?(?: ?([ap])\.?m\.?)?)?$/i;

/** Writes a date of this form as ISO 8601. Other texts stay as they are. */
export function isoDate(text: string, form: DateForm): string {
  const found = form === 'iso' ? null : WITH_ORDER.exec(text);
  if (!found) return text;
  const [, one = '', other = '', year, hour = '0', minute = '00', second = '00', half] = found;
  const [day, month] = form === 'dd/mm/yyyy' ? [one, other] : [other, one];
  const hours = half ? (Number(hour) % 12) + (half.toLowerCase() === 'p' ? 12 : 0) : Number(hour);
  const two = (digits: string | number) => String(digits).padStart(2, '0');
  return `${year}-${two(month)}-${two(day)}T${two(hours)}:${minute}:${second}`;
}

/** Whether a text is a date only when day and month are exchanged. */
export function hasOtherOrder(text: string, form: DateForm): boolean {
  const found = form === 'iso' ? null : WITH_ORDER.exec(text.trim());
  if (!found) return false;
  const [first, second] = [Number(found[1]), Number(found[2])];
  const [day, month] = form === 'dd/mm/yyyy' ? [first, second] : [second, first];
  return month > 12 && month <= 31 && day <= 12;
}

/** Whether a text looks like a date with day and month in an unknown order. */
export const isOrdered = (text: string): boolean => WITH_ORDER.test(text.trim());
