import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { now } from './clock.ts';
import { currentZone, type Zone } from './zone.ts';

const STYLES = {
  short: { dateStyle: 'medium', timeStyle: 'short' },
  exact: { dateStyle: 'medium', timeStyle: 'medium' },
  day: { dateStyle: 'medium' },
} as const;

type Style = keyof typeof STYLES;

const FORMATS: Readonly<Record<Zone, Readonly<Record<Style, Intl.DateTimeFormat>>>> = {
  local: formatsIn(undefined),
  utc: formatsIn('UTC'),
};

const NOW = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });
/** Never `tomorrow`: 47 hours are a day, and may end on the day after tomorrow. */
const RELATIVE = new Intl.RelativeTimeFormat();

const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;

/** `2026-11-24 05:10:11 UTC` */
function utcText(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** The time in the words of the reader's language, such as `3 hours ago`. */
function relativeText(at: Date): string {
  const seconds = Math.round((at.getTime() - now()) / 1_000);
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.trunc(seconds / length), unit);
  }
  return NOW.format(seconds, 'second');
}

/** The time as a text, for places without elements; empty when there is none. */
export function timeText(at: Timestamp | undefined): string {
  return at ? textIn(currentZone(), 'short', timestampDate(at)) : '';
}

/** Whether the time has come. */
export function isDue(at: Timestamp | undefined): boolean {
  return at !== undefined && timestampDate(at).getTime() <= now();
}

/** A time that may be shown, as the API sends it or as the page computes it. */
export type Moment = Timestamp | Date;

interface TimeProps {
  readonly at: Moment | undefined;
  readonly as?: 'short' | 'exact' | 'day' | 'relative';
  /** Shown when there is no time. */
  readonly none?: string;
}

/** A time in the zone that the reader chose. The title has it in the reader's own zone and in UTC. */
export function Time({ at, as = 'short', none = '–' }: TimeProps) {
  if (at === undefined) return <>{none}</>;
  const date = at instanceof Date ? at : timestampDate(at);
  return (
    <time
      dateTime={date.toISOString()}
      title={`${FORMATS.local.exact.format(date)} · ${utcText(date)}`}
    >
      {as === 'relative' ? relativeText(date) : textIn(currentZone(), as, date)}
    </time>
  );
}

function textIn(zone: Zone, style: Style, date: Date): string {
  const text = FORMATS[zone][style].format(date);
  return zone === 'utc' && style !== 'day' ? `${text} UTC` : text;
}

function formatsIn(timeZone: string | undefined): Record<Style, Intl.DateTimeFormat> {
  const format = (style: Style) =>
    new Intl.DateTimeFormat(undefined, { ...STYLES[style], ...(timeZone && { timeZone }) });
  return { short: format('short'), exact: format('exact'), day: format('day') };
}
