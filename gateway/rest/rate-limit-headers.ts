import type { ServerResponse } from 'node:http';
import type { RestOfWindow } from '../auth/leased-limit.ts';

// Structured fields (RFC 9651) of draft-ietf-httpapi-ratelimit-headers.

/** The name of the limit of requests in a minute, with its bodies and responses as further requests. */
const REQUESTS = 'requests';
const MINUTE_S = 60;

/**
 * Sets `RateLimit-Policy` and `RateLimit` of a request that was counted.
 *
 * @param limit requests in a minute.
 * @param rest what is left of the minute; only the policy is set while it is unknown.
 */
export function setRateLimit(
  res: ServerResponse,
  limit: number,
  rest: RestOfWindow | undefined,
): void {
  if (res.headersSent) return;
  res.setHeader('RateLimit-Policy', `"${REQUESTS}";q=${limit};w=${MINUTE_S}`);
  if (rest) res.setHeader('RateLimit', `"${REQUESTS}";r=${rest.points};t=${rest.seconds}`);
}

/** The fields of a 429 for too many rejected credentials from one address. */
export function rejectedCredentialsLimit(limit: number, retryAfterS: number) {
  return {
    'RateLimit-Policy': `"rejected-credentials";q=${limit};w=${MINUTE_S}`,
    RateLimit: `"rejected-credentials";r=0;t=${retryAfterS}`,
  };
}
