import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { currentZone } from '../parts/time/zone.ts';

// Days and times of fields, in the zone that the page shows.

/** Whether a text begins with a day of the calendar. `Date` takes 31 February for 3 March. */
function isOnCalendar(text: string): boolean {
  const day = text.slice(0, 10);
  const at = new Date(`${day}T00:00Z`);
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(day);
}

/** The first moment of a day `YYYY-MM-DD`; undefined when the text is not a day. */
export function dayStart(day: string | undefined, addDays = 0): Timestamp | undefined {
  const [text, year, month, date] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day ?? '') ?? [];
  if (text === undefined || !isOnCalendar(text)) return undefined;
  const parts = [Number(year), Number(month) - 1, Number(date) + addDays] as const;
  return timestampFromDate(
    currentZone() === 'utc' ? new Date(Date.UTC(...parts)) : new Date(...parts),
  );
}

/** The moment after a day `YYYY-MM-DD`: the end of a filter that includes the day. */
export function dayEnd(day: string | undefined): Timestamp | undefined {
  return dayStart(day, 1);
}

/** Reads the text of an `<input type="datetime-local">` as a time; undefined when it is none. */
export function localMoment(text: string | undefined): Timestamp | undefined {
  if (!text || !isOnCalendar(text)) return undefined;
  const at = new Date(currentZone() === 'utc' ? `${text}Z` : text);
  return Number.isNaN(at.getTime()) ? undefined : timestampFromDate(at);
}

/** Writes a time as the text of an `<input type="datetime-local">`. */
function localText(at: Date): string {
  const offset = currentZone() === 'utc' ? 0 : at.getTimezoneOffset();
  return new Date(at.getTime() - offset * 60_000).toISOString().slice(0, 16);
}

/** The day of a time, as `YYYY-MM-DD`. */
export function localDay(at: Date): string {
  return localText(at).slice(0, 10);
}
