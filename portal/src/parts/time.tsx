import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';

const SHORT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });

const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;

/** `2026-11-24 05:10:11 UTC` */
export function utcText(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** The time in the words of the reader's language, such as `3 hours ago`. */
export function relativeText(at: Date, now = Date.now()): string {
  const seconds = Math.round((at.getTime() - now) / 1_000);
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.trunc(seconds / length), unit);
  }
  return RELATIVE.format(seconds, 'second');
}

/** The time in the reader's zone as a text, for places without elements; empty when there is none. */
export function timeText(at: Timestamp | undefined): string {
  return at ? SHORT.format(timestampDate(at)) : '';
}

interface TimeProps {
  readonly at: Timestamp | Date | undefined;
  readonly as?: 'short' | 'exact' | 'day' | 'relative';
  /** Shown when there is no time. */
  readonly none?: string;
}

/** A time in the reader's zone. UTC is in the title. */
export function Time({ at, as = 'short', none = '–' }: TimeProps) {
  if (at === undefined) return <>{none}</>;
  const date = at instanceof Date ? at : timestampDate(at);
  return (
    <time dateTime={date.toISOString()} title={`${EXACT.format(date)} · ${utcText(date)}`}>
      {text(date, as)}
    </time>
  );
}

function text(date: Date, as: NonNullable<TimeProps['as']>): string {
  if (as === 'relative') return relativeText(date);
  if (as === 'day') return DAY.format(date);
  return (as === 'exact' ? EXACT : SHORT).format(date);
}
