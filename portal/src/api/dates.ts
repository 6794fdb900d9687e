import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';

/** The first moment of a day `YYYY-MM-DD` in the reader's zone; undefined when the text is no day. */
export function dayStart(day: string | undefined, addDays = 0): Timestamp | undefined {
  const [, year, month, date] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day ?? '') ?? [];
  if (year === undefined) return undefined;
  return timestampFromDate(new Date(Number(year), Number(month) - 1, Number(date) + addDays));
}

/** The moment after a day `YYYY-MM-DD` in the reader's zone: the end of a filter that includes the day. */
export function dayEnd(day: string | undefined): Timestamp | undefined {
  return dayStart(day, 1);
}

/** The moment of a text of `<input type="datetime-local">`, in the reader's zone. */
export function localMoment(text: string | undefined): Timestamp | undefined {
  if (text === undefined || text === '') return undefined;
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? undefined : timestampFromDate(at);
}

/** The text of `<input type="datetime-local">` for a moment, in the reader's zone. */
export function localText(at: Date): string {
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

/** The day `YYYY-MM-DD` of a moment in the reader's zone. */
export function localDay(at: Date): string {
  return localText(at).slice(0, 10);
}
