/**
 * The version calendar (interface: Versioning). Pure: every function takes today's date.
 * A version is named after the month of its release, which is on the first day (UTC). It is active for 12 months,
 * deprecated until month 15, then sunset. Only the newest released version is never sunset: after month 15 it stays
 * deprecated until a newer one is released. So at least one version is always supported.
 */

/** Released versions, oldest first. How to add one: docs/recipes/api-version.md. */
export const RELEASED = ['2026-07', '2026-10'] as const;
export const UNSTABLE = 'unstable';
/** The path of the changelog. Responses of deprecated versions link to it. */
export const CHANGELOG_PATH = '/docs/changelog';
export const UNSTABLE_WARNING =
  'The unstable version may change without notice and must not be used in production.';

const ALIAS = { name: 'v1', version: RELEASED[0] } as const;
const VERSION_SEGMENT = /^(?:\d{4}-\d{2}|v\d+|unstable)$/;

const dayOf = createCalendar(RELEASED, CHANGELOG_PATH);

/** The version that serves a request, the version that was requested, and the headers for the response. */
export interface Served {
  readonly served: string;
  readonly requested: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** True when the support of the version has ended. It is still served only while no newer version is released. */
  readonly pastWindow: boolean;
}

/**
 * The `Link` in the 404 for an unknown version (RFC 8631). It leads to the OpenAPI document of a supported version, and
 * to the changelog.
 */
export function documentationLink(today: Date): string {
  const { newestActive: version } = dayOf(today);
  return `</openapi/${version}.json>; rel="service-desc", <${CHANGELOG_PATH}>; rel="service-doc"`;
}

/** Whether the first segment of a path after `/api` has the form of a version. If not, the path has no version. */
export function isVersion(segment: string): boolean {
  return VERSION_SEGMENT.test(segment);
}

/**
 * Returns the version that serves a request (interface: Versioning).
 *
 * @param rest the path after the version, for the link to the successor of a sunset version.
 * @returns with `unknown`, the text of a 404.
 */
export function serve(
  segment: string | undefined,
  today: Date,
  rest = '',
): Served | { readonly unknown: string } {
  if (segment === UNSTABLE) {
    const headers = {
      'X-Service-API-Version': UNSTABLE,
      'X-Service-API-Warning': UNSTABLE_WARNING,
    };
    return { served: UNSTABLE, requested: segment, headers, pastWindow: false };
  }
  const day = dayOf(today);
  const version = segment === ALIAS.name ? ALIAS.version : segment;
  const stage = version === undefined ? undefined : stageOf(version, today);
  const isAliasSunset = segment === ALIAS.name && stage === 'sunset';
  if (stage === 'unreleased' || isAliasSunset) {
    const names = [...day.supported, UNSTABLE].join(', ');
    return { unknown: `Unknown API version ${segment}. Supported versions: ${names}.` };
  }
  const upgraded = version === undefined || stage === 'sunset';
  const served = upgraded ? day.oldestSupported : version;
  const servedDay = day.versions.get(served);
  const successor = stage === 'sunset' ? [successorLink(served, rest)] : [];
  const links = [...successor, ...(servedDay?.links ?? [])];
  return {
    served,
    requested: segment,
    headers: {
      'X-Service-API-Version': served,
      ...servedDay?.dates,
      ...(links.length > 0 && { Link: links.join(', ') }),
    },
    pastWindow: servedDay?.pastWindow ?? false,
  };
}

/** The stage of a version. It is `unreleased` also for a text that is not a version. */
export function stageOf(version: string, today: Date): Stage {
  return dayOf(today).versions.get(version)?.stage ?? 'unreleased';
}

/** A released version, with the dates that people need to plan an upgrade. */
interface ReleasedVersion {
  readonly version: string;
  readonly stage: Exclude<Stage, 'unreleased'>;
  readonly deprecatedAt: Date;
  readonly sunsetAt: Date;
}

/** The versions that are released on this day, oldest first. */
export function releasedVersions(today: Date): ReleasedVersion[] {
  return [...dayOf(today).versions].map(([version, { stage }]) => {
    const { deprecation, sunset } = lifecycleOf(version);
    return { version, stage, deprecatedAt: deprecation, sunsetAt: sunset };
  });
}

/** The versions that requests can use on this day, oldest first; never empty. */
export function supportedVersions(today: Date): readonly string[] {
  return dayOf(today).supported;
}

/** The newest active version, or the newest released one when none is active. */
export function newestActive(today: Date): string {
  return dayOf(today).newestActive;
}

/**
 * The version of a shop's webhook payloads, and the headers for each delivery. After the sunset of the `stored`
 * version, it is the oldest supported version, as for requests.
 */
export function payloadVersionServed(
  stored: string,
  today: Date,
): { version: string; headers: Readonly<Record<string, string>> } {
  const { supported, oldestSupported, versions } = dayOf(today);
  const version = supported.includes(stored) ? stored : oldestSupported;
  const sunset = versions.get(version)?.dates.Sunset;
  return {
    version,
    headers: { 'X-Service-API-Version': version, ...(sunset !== undefined && { Sunset: sunset }) },
  };
}

/**
 * The link to the newer version. Characters that a header or link must not have are encoded, because the path comes
 * from the request.
 */
function successorLink(version: string, rest: string): string {
  const safe = rest
    .slice(0, 512)
    .replace(/\p{Cs}/gu, '')
    .replace(/[^\w\-./~%!$&'()*+,;=:@]/gu, (character) => encodeURIComponent(character));
  return `</api/${version}${safe}>; rel="successor-version"`;
}

const ACTIVE_MONTHS = 12;
const SUPPORTED_MONTHS = 15;
const DAY_MS = 86_400_000;
/** Maximum number of days in the cache. A process needs only a few. */
const CACHED_DAYS = 16;

type Stage = 'unreleased' | 'active' | 'deprecated' | 'sunset';

/** A released version on one day. */
interface VersionDay {
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
interface CalendarDay {
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
function lifecycleOf(version: string): {
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
