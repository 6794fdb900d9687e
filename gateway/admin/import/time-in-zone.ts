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
