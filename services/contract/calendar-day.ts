const ACTIVE_MONTHS = 12;
const SUPPORTED_MONTHS = 15;
const DAY_MS = 86_400_000;
/** Maximum number of days in the cache. A process needs only a few. */
const CACHED_DAYS = 16;

export type Stage = 'unreleased' | 'active' | 'deprecated' | 'sunset';

/** A released version on one day. */
export interface VersionDay {
  readonly stage: Exclude<Stage, 'unreleased'>;
  /**
   * The headers of a deprecated version, which say when it is retired (`Sunset`, RFC 8594) and when it became
   * deprecated (RFC 9745).
   */
  readonly dates: Readonly<Record<string, string>>;
  /** Links that explain the dates. */
  readonly links: readonly string[];
  /** True when the support of the version has ended. It is still served only while no newer version is released. */
  readonly pastWindow: boolean;
}

/** The version calendar on one day. */
export interface CalendarDay {
  /** Released versions, oldest first. */
  readonly versions: ReadonlyMap<string, VersionDay>;
  /** The versions that requests can use, oldest first; never empty. */
  readonly supported: readonly string[];
  readonly oldestSupported: string;
  /** The newest active version, or the newest released one when none is active. */
  readonly newestActive: string;
}

/**
 * Returns the calendar of any day. Computes each day once, because the calendar changes only at midnight (UTC).
 *
 * @param released names of all versions, oldest first.
 * @param changelog the page to which deprecated versions link.
 */
export function createCalendar(
  released: readonly [string, ...string[]],
  changelog: string,
): (today: Date) => CalendarDay {
  const cached = new Map<number, CalendarDay>();
  return (today) => {
    const number = Math.floor(today.getTime() / DAY_MS);
    const existing = cached.get(number);
    if (existing) return existing;
    const day = calendarDay(released, changelog, new Date(number * DAY_MS));
    const oldest = cached.size >= CACHED_DAYS ? cached.keys().next().value : undefined;
    if (oldest !== undefined) cached.delete(oldest);
    cached.set(number, day);
    return day;
  };
}

/** Returns when a version becomes deprecated, and when it becomes sunset. */
export function lifecycleOf(version: string): {
  readonly deprecation: Date;
  readonly sunset: Date;
} {
  const day = releaseDay(version);
  return { deprecation: addMonths(day, ACTIVE_MONTHS), sunset: addMonths(day, SUPPORTED_MONTHS) };
}

function calendarDay(all: readonly [string, ...string[]], changelog: string, today: Date) {
  const due = all.filter((version) => releaseDay(version) <= today);
  // Before the first release there is no released version. Then the first version counts as released.
  const released = due.length > 0 ? due : [all[0]];
  const versions = new Map(
    released.map((version) => {
      const isNewest = version === released.at(-1);
      return [version, versionDay(version, { isNewest, changelog, today })];
    }),
  );
  const supported = released.filter((version) => versions.get(version)?.stage !== 'sunset');
  const active = released.findLast((version) => versions.get(version)?.stage === 'active');
  return {
    versions,
    supported,
    oldestSupported: supported[0] ?? all[0],
    newestActive: active ?? released.at(-1) ?? all[0],
  };
}

function versionDay(
  version: string,
  o: { isNewest: boolean; changelog: string; today: Date },
): VersionDay {
  const { deprecation, sunset } = lifecycleOf(version);
  const pastWindow = o.today >= sunset;
  if (o.today < deprecation) return { stage: 'active', dates: {}, links: [], pastWindow };
  if (pastWindow && !o.isNewest) return { stage: 'sunset', dates: {}, links: [], pastWindow };
  return {
    stage: 'deprecated',
    dates: { Sunset: sunset.toUTCString(), Deprecation: `@${deprecation.getTime() / 1000}` },
    links: ['deprecation', 'sunset'].map(
      (rel) => `<${o.changelog}>; rel="${rel}"; type="text/html"`,
    ),
    pastWindow,
  };
}

function releaseDay(version: string): Date {
  return new Date(`${version}-01T00:00:00Z`);
}

function addMonths(day: Date, months: number): Date {
  return new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + months, 1));
}
