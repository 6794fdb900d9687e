import type { RateLimit, RestOfWindow } from '../auth/rate-limits.ts';

// Structured fields (RFC 9651) of draft-ietf-httpapi-ratelimit-headers.

const MINUTE_S = 60;

/** The methods of a response that this file uses. */
interface Headers {
  readonly headersSent: boolean;
  setHeader(name: string, value: string): unknown;
}

/**
 * Sets `RateLimit-Policy` and `RateLimit` to the limit of a credential: its requests in a minute. Large bodies and
 * responses count as additional requests.
 *
 * @param limit requests in a minute.
 * @param rest what is left of the minute; undefined while nothing was counted in it.
 */
export function showRequests(
  res: Headers,
  limit: number,
  rest: RestOfWindow = { points: limit, seconds: MINUTE_S },
): void {
  show(res, 'requests', { limit, rest });
}

/**
 * Sets the same headers to the limit of an IP address without an accepted credential: its rejected credentials in a
 * minute.
 */
export function showRejectedCredentials(
  res: Headers,
  limit: Pick<RateLimit, 'points' | 'rest'>,
  ip: string,
): void {
  show(res, 'rejected-credentials', { limit: limit.points, rest: limit.rest(ip) });
}

function show(
  res: Headers,
  name: string,
  { limit, rest }: { readonly limit: number; readonly rest: RestOfWindow },
): void {
  if (res.headersSent) return;
  res.setHeader('RateLimit-Policy', `"${name}";q=${limit};w=${MINUTE_S}`);
  res.setHeader('RateLimit', `"${name}";r=${rest.points};t=${rest.seconds}`);
}
