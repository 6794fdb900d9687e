import { createCalendar, lifecycleOf, type Stage } from './calendar-day.ts';

/**
 * The version calendar (interface: Versioning). Pure: every function takes today's date.
 * A version is named after the month of its release, which is on the first day (UTC). It is active for 12 months,
 * deprecated until month 15, then sunset. Only the newest released version is never sunset: after month 15 it stays
 * deprecated until a newer one is released. So at least one version is always supported.
 */

/** Released versions, oldest first. How to add one: CONTRIBUTING.md. */
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
export interface ReleasedVersion {
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
