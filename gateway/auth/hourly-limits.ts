import type { RequestHandler } from 'express';
import type pg from 'pg';
import { send } from '../rest/respond.ts';
import { addressOf, type ClientIp } from './client-ip.ts';
import { createRateLimit, type RateLimit } from './rate-limits.ts';

/**
 * Requests per hour: by IP address, and by user for `mcpCalls`. The first five limits are those of the interface
 * (Limits). The others are additional, each counted separately. They are larger than the limit of
 * `/oauth/authorize`, because one sign-in opens `/oauth/callback` once and a few pages; so people who share an
 * address reach the limit of `/oauth/authorize` first.
 */
export const HOURLY_LIMITS = {
  wellKnown: 100,
  register: 50,
  authorize: 100,
  token: 100,
  mcpCalls: 600,
  callback: 200,
  revoke: 100,
  resume: 400,
  signInPages: 1_200,
  jwks: 600,
} as const;

export type HourlySizes = Readonly<Record<keyof typeof HOURLY_LIMITS, number>>;

export interface HourlyLimits {
  /**
   * Each handler counts the request for the caller's IP address and passes it on, or answers 429. While the database
   * is unavailable it answers 503. Preflights are not counted, because the browser sends them on its own.
   */
  readonly wellKnown: RequestHandler;
  readonly register: RequestHandler;
  readonly authorize: RequestHandler;
  readonly token: RequestHandler;
  /** `/oauth/revoke`. */
  readonly revoke: RequestHandler;
  /** `/oauth/callback`. */
  readonly callback: RequestHandler;
  /** `/oauth/authorize/:uid`, which the interface's limit of `/oauth/authorize` does not count. */
  readonly resume: RequestHandler;
  /** Pages and forms of a sign-in, `/oauth/sign-in/*`. */
  readonly signInPages: RequestHandler;
  /** `/oauth/jwks`. */
  readonly jwks: RequestHandler;
  /** Tool calls, by user id, over all shops of the user. */
  readonly mcpCalls: RateLimit;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  forget(): void;
}

const HOUR_S = 3_600;

/** The limits of the sign-in and of the MCP server. They are exact over all replicas. */
export function createHourlyLimits(o: {
  readonly pool: pg.Pool;
  readonly clientIp: ClientIp;
  readonly sizes?: Partial<HourlySizes>;
}): HourlyLimits {
  const sizes = { ...HOURLY_LIMITS, ...o.sizes };
  const limitOf = (name: string, points: number): RateLimit =>
    createRateLimit({ pool: o.pool, name, points, windowS: HOUR_S, whenUnavailable: 'refuse' });
  const limits = {
    wellKnown: limitOf('well-known', sizes.wellKnown),
    register: limitOf('oauth-register', sizes.register),
    authorize: limitOf('oauth-authorize', sizes.authorize),
    token: limitOf('oauth-token', sizes.token),
    mcpCalls: limitOf('mcp-calls', sizes.mcpCalls),
    revoke: limitOf('oauth-revoke', sizes.revoke),
    callback: limitOf('oauth-callback', sizes.callback),
    resume: limitOf('oauth-resume', sizes.resume),
    signInPages: limitOf('oauth-sign-in', sizes.signInPages),
    jwks: limitOf('oauth-jwks', sizes.jwks),
  };
  const { clientIp } = o;
  return {
    wellKnown: perAddress(limits.wellKnown, clientIp),
    register: perAddress(limits.register, clientIp),
    authorize: perAddress(limits.authorize, clientIp),
    token: perAddress(limits.token, clientIp),
    revoke: perAddress(limits.revoke, clientIp),
    callback: perAddress(limits.callback, clientIp),
    resume: perAddress(limits.resume, clientIp),
    signInPages: perAddress(limits.signInPages, clientIp),
    jwks: perAddress(limits.jwks, clientIp),
    mcpCalls: limits.mcpCalls,
    forget() {
      for (const limit of Object.values(limits)) limit.forget();
    },
  };
}

function perAddress(limit: RateLimit, clientIp: ClientIp): RequestHandler {
  return async (req, res, next) => {
    if (req.method === 'OPTIONS') return next();
    const admission = await limit.take(addressOf(clientIp, req));
    if (admission.admitted) return next();
    const { unavailable, retryAfterS } = admission;
    await send(req, res, {
      status: unavailable ? 503 : 429,
      headers: { 'Retry-After': String(retryAfterS), 'Cache-Control': 'no-store' },
      body: { contentType: 'application/json', json: refusal(retryAfterS, unavailable) },
    });
  };
}

/** One object with the fields of OAuth errors (RFC 6749, 5.2) and of this API's errors, for both kinds of clients. */
function refusal(retryAfterS: number, unavailable: true | undefined) {
  const why = unavailable ? 'Sign-in is not available at the moment.' : 'Too many requests.';
  const message = `${why} Try again in ${retryAfterS} s.`;
  return { error: 'temporarily_unavailable', error_description: message, message, errors: {} };
}
