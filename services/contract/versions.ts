/**
 * The version calendar (interface: Versioning). Pure: every function takes today's date.
 * A version is named after the month whose first day (UTC) releases it. It is active for 12 months,
 * deprecated until month 15, then sunset; the newest released one stays deprecated until a newer
 * one comes, so that something is always supported.
 */

/** Released versions, oldest first. */
export const RELEASED = ['2026-07', '2026-10'] as const;
export const UNSTABLE = 'unstable';
/** Where the gateway serves the changelog that deprecated responses link to. */
export const CHANGELOG_PATH = '/docs/changelog';
export const UNSTABLE_WARNING =
  'The unstable version may change without notice and must not be used in production.';

const ALIAS = { name: 'v1', version: RELEASED[0] } as const;
const VERSION_SEGMENT = /^(?:\d{4}-\d{2}|v\d+|unstable)$/;
const ACTIVE_MONTHS = 12;
const SUPPORTED_MONTHS = 15;

export type Stage = 'unreleased' | 'active' | 'deprecated' | 'sunset';

/** What serves a request: the version, what was asked for, and the headers every answer carries. */
export interface Served {
  readonly served: string;
  readonly requested: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** True when the version is past its window and kept only because no newer one was released. */
  readonly pastWindow: boolean;
}

/**
 * Splits a whole request path such as `/api/v1/webhooks/7` into the version segment, when the first
 * segment looks like one, and the rest (`/webhooks/7`, or an empty text). undefined: not under `/api`.
 */
export function splitPath(path: string): { segment: string | undefined; rest: string } | undefined {
  if (path !== '/api' && !path.startsWith('/api/')) return undefined;
  const rest = path.slice('/api'.length);
  const end = rest.indexOf('/', 1);
  const segment = decoded(end === -1 ? rest.slice(1) : rest.slice(1, end));
  if (segment === undefined || !VERSION_SEGMENT.test(segment)) return { segment: undefined, rest };
  return { segment, rest: end === -1 ? '' : rest.slice(end) };
}

/**
 * Which version serves a request (interface: Versioning). `rest` is the path after the version, for
 * the link to the successor of a sunset version. `unknown` carries the text of the 404.
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
  const version = segment === ALIAS.name ? ALIAS.version : segment;
  const stage = version === undefined ? undefined : stageOf(version, today);
  const aliasGone = segment === ALIAS.name && stage === 'sunset';
  if (stage === 'unreleased' || aliasGone) {
    const names = [...supportedVersions(today), UNSTABLE].join(', ');
    return { unknown: `Unknown API version ${segment}. Supported versions: ${names}.` };
  }
  const upgraded = version === undefined || stage === 'sunset';
  const served = upgraded ? oldestSupported(today) : version;
  const links = stage === 'sunset' ? [successorLink(served, rest)] : [];
  return {
    served,
    requested: segment,
    headers: { 'X-Service-API-Version': served, ...lifecycleHeaders(served, today, links) },
    pastWindow: today >= addMonths(releaseDay(served), SUPPORTED_MONTHS),
  };
}

/** Where a version stands; `unreleased` also for names that were never one. */
export function stageOf(version: string, today: Date): Stage {
  if (!releasedBy(today).includes(version)) return 'unreleased';
  const day = releaseDay(version);
  if (today < addMonths(day, ACTIVE_MONTHS)) return 'active';
  const newest = version === releasedBy(today).at(-1);
  return newest || today < addMonths(day, SUPPORTED_MONTHS) ? 'deprecated' : 'sunset';
}

/** Versions that serve requests today, oldest first; never empty. */
export function supportedVersions(today: Date): string[] {
  return releasedBy(today).filter((version) => stageOf(version, today) !== 'sunset');
}

/** The newest active version, or the newest released when none is active any more. */
export function newestActive(today: Date): string {
  const released = releasedBy(today);
  return (
    released.findLast((version) => stageOf(version, today) === 'active') ??
    released.at(-1) ??
    RELEASED[0]
  );
}

/**
 * Which version shapes webhook payloads for a shop that chose `stored`: the choice, upgraded as
 * requests are once it is sunset (interface: Versioning, rule 9). The headers go with each delivery.
 */
export function payloadVersionServed(
  stored: string,
  today: Date,
): { version: string; headers: Readonly<Record<string, string>> } {
  const supported = supportedVersions(today);
  const version = supported.includes(stored) ? stored : oldestSupported(today);
  const { Sunset } = lifecycleHeaders(version, today, []);
  return {
    version,
    headers: { 'X-Service-API-Version': version, ...(Sunset === undefined ? {} : { Sunset }) },
  };
}

/** When a version retires: the day its `Sunset` header names. */
function sunsetDay(version: string): Date {
  return addMonths(releaseDay(version), SUPPORTED_MONTHS);
}

/** RFC 8594 `Sunset`, RFC 9745 `Deprecation`, and the links that explain them. */
function lifecycleHeaders(
  version: string,
  today: Date,
  links: readonly string[],
): Record<string, string> {
  const deprecated = stageOf(version, today) === 'deprecated';
  const relations = deprecated
    ? [...links, ...['deprecation', 'sunset'].map(changelogLink)]
    : [...links];
  const since = addMonths(releaseDay(version), ACTIVE_MONTHS).getTime() / 1000;
  return {
    ...(deprecated ? { Sunset: sunsetDay(version).toUTCString(), Deprecation: `@${since}` } : {}),
    ...(relations.length > 0 ? { Link: relations.join(', ') } : {}),
  };
}

function changelogLink(rel: string): string {
  return `<${CHANGELOG_PATH}>; rel="${rel}"; type="text/html"`;
}

/** The path was sent by the caller: whatever a header or a link may not hold is encoded. */
function successorLink(version: string, rest: string): string {
  const safe = rest
    .slice(0, 512)
    .replace(/\p{Cs}/gu, '')
    .replace(/[^\w\-./~%!$&'()*+,;=:@]/gu, (character) => encodeURIComponent(character));
  return `</api/${version}${safe}>; rel="successor-version"`;
}

/** Before the first release day the first version counts as released: there is no other. */
function releasedBy(today: Date): string[] {
  const released = RELEASED.filter((version) => releaseDay(version) <= today);
  return released.length > 0 ? released : [RELEASED[0]];
}

function oldestSupported(today: Date): string {
  return supportedVersions(today)[0] ?? RELEASED[0];
}

function releaseDay(version: string): Date {
  return new Date(`${version}-01T00:00:00Z`);
}

function addMonths(day: Date, months: number): Date {
  return new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + months, 1));
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
