import type { RequestHandler } from 'express';
import type pg from 'pg';
import { type Settings, wholeNumber } from '../../services/platform/process/config.ts';
import { send } from '../http/respond.ts';
import { addressOf, type ClientIp } from './client-ip.ts';
import { createRateLimit, type RateLimit } from './rate-limits.ts';

const perHour = (points: number, meaning: string) =>
  wholeNumber(1, 1_000_000).default(points).describe(meaning);

/**
 * Requests per hour by IP address, and tool calls per hour by user. The first five limits are those of the interface
 * (Limits). The others are additional. Each limit counts separately.
 *
 * One sign-in makes several requests that the additional limits count. So most of them are larger than the limit of
 * `/oauth/authorize`, and users who share an address reach the limit of `/oauth/authorize` first.
 */
export const hourlyShape = {
  WELL_KNOWN_PER_HOUR: perHour(100, 'Requests for the metadata under /.well-known'),
  REGISTER_PER_HOUR: perHour(50, 'Requests to /oauth/register'),
  AUTHORIZE_PER_HOUR: perHour(100, 'Requests to /oauth/authorize'),
  TOKEN_PER_HOUR: perHour(100, 'Requests to /oauth/token'),
  MCP_CALLS_PER_HOUR: perHour(600, 'Tool calls of one signed-in user, not address, over all shops'),
  CALLBACK_PER_HOUR: perHour(200, 'Requests to /oauth/callback'),
  REVOKE_PER_HOUR: perHour(100, 'Requests to /oauth/revoke'),
  RESUME_PER_HOUR: perHour(
    400,
    'Requests to /oauth/authorize/{id} and /partners/authorize/{id}, the last step of a sign-in',
  ),
  SIGN_IN_PAGES_PER_HOUR: perHour(1_200, 'Pages and forms of /oauth/sign-in and /partners/sign-in'),
  JWKS_PER_HOUR: perHour(600, 'Requests to /oauth/jwks and /partners/jwks'),
  PARTNER_AUTHORIZE_PER_HOUR: perHour(100, 'Requests to /partners/authorize'),
  // An app with many shops refreshes their tokens from one address.
  PARTNER_TOKEN_PER_HOUR: perHour(
    20_000,
    'Requests to /partners/oauth/token and /partners/oauth/revoke',
  ),
  PORTAL_SIGN_IN_PER_HOUR: perHour(200, 'Requests to /portal/sign-in'),
  PORTAL_CALLBACK_PER_HOUR: perHour(200, 'Requests to /portal/callback'),
  PORTAL_INVITATION_PER_HOUR: perHour(400, 'Requests to /portal/invitation and below'),
  SHOPPER_PAGES_PER_HOUR: perHour(1_200, 'Requests to /r and below, the pages of shoppers'),
  SHOPPER_LOOK_UPS_PER_HOUR: perHour(60, 'Look-ups of orders on the pages of shoppers'),
  SHOPIFY_INSTALL_PER_HOUR: perHour(
    100,
    'Requests to /commerce/shopify/install and /commerce/shopify/callback',
  ),
  COMMERCE_EVENTS_PER_HOUR: perHour(36_000, "Events of merchants' platforms, to /commerce/events"),
};

export type HourlySizes = Settings<typeof hourlyShape>;

export interface HourlyLimits {
  /**
   * Each of these handlers counts the request for the caller's IP address. It calls the next handler or returns 429.
   * While the database is unavailable, it returns 503. It does not count preflights, because browsers send them and not
   * users.
   */
  readonly wellKnown: RequestHandler;
  readonly register: RequestHandler;
  readonly authorize: RequestHandler;
  readonly token: RequestHandler;
  /** `/oauth/revoke`. */
  readonly revoke: RequestHandler;
  /** `/oauth/callback`. */
  readonly callback: RequestHandler;
  /** `/oauth/authorize/:uid`, `/partners/authorize/:uid`. The limit of `authorize` does not count these requests. */
  readonly resume: RequestHandler;
  /** Pages and forms of a sign-in, `/oauth/sign-in/*` and `/partners/sign-in/*`. */
  readonly signInPages: RequestHandler;
  /** `/oauth/jwks`, `/partners/jwks`. */
  readonly jwks: RequestHandler;
  /** `/partners/authorize`. */
  readonly partnerAuthorize: RequestHandler;
  /** `/partners/oauth/*`. */
  readonly partnerToken: RequestHandler;
  /** `/portal/sign-in`. */
  readonly portalSignIn: RequestHandler;
  /** `/portal/callback`. */
  readonly portalCallback: RequestHandler;
  /** `/portal/invitation` and below. */
  readonly portalInvitation: RequestHandler;
  /** `/r` and below. */
  readonly shopperPages: RequestHandler;
  /** Look-ups of orders by shoppers, by IP address. */
  readonly shopperLookUps: RateLimit;
  /** `/commerce/shopify/install` and `/commerce/shopify/callback`. */
  readonly shopifyInstall: RequestHandler;
  /** Events of merchants' platforms, by IP address. */
  readonly commerceEvents: RateLimit;
  /** Tool calls, by user id, over all shops of the user. */
  readonly mcpCalls: RateLimit;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  reset(): void;
}

const HOUR_S = 3_600;

/** Creates the limits of the sign-in and of the MCP server. They are exact over all replicas. */
export function createHourlyLimits(o: {
  readonly pool: pg.Pool;
  readonly clientIp: ClientIp;
  readonly sizes: HourlySizes;
}): HourlyLimits {
  const { pool, clientIp, sizes } = o;
  const limits: RateLimit[] = [];
  const limitOf = (name: string, points: number): RateLimit => {
    const limit = createRateLimit({
      pool,
      name,
      points,
      windowS: HOUR_S,
      whenUnavailable: 'reject',
    });
    limits.push(limit);
    return limit;
  };
  const byAddress = (name: string, points: number) => perAddress(limitOf(name, points), clientIp);
  return {
    wellKnown: byAddress('well-known', sizes.WELL_KNOWN_PER_HOUR),
    register: byAddress('oauth-register', sizes.REGISTER_PER_HOUR),
    authorize: byAddress('oauth-authorize', sizes.AUTHORIZE_PER_HOUR),
    token: byAddress('oauth-token', sizes.TOKEN_PER_HOUR),
    revoke: byAddress('oauth-revoke', sizes.REVOKE_PER_HOUR),
    callback: byAddress('oauth-callback', sizes.CALLBACK_PER_HOUR),
    resume: byAddress('oauth-resume', sizes.RESUME_PER_HOUR),
    signInPages: byAddress('oauth-sign-in', sizes.SIGN_IN_PAGES_PER_HOUR),
    jwks: byAddress('oauth-jwks', sizes.JWKS_PER_HOUR),
    partnerAuthorize: byAddress('partner-authorize', sizes.PARTNER_AUTHORIZE_PER_HOUR),
    partnerToken: byAddress('partner-token', sizes.PARTNER_TOKEN_PER_HOUR),
    portalSignIn: byAddress('portal-sign-in', sizes.PORTAL_SIGN_IN_PER_HOUR),
    portalCallback: byAddress('portal-callback', sizes.PORTAL_CALLBACK_PER_HOUR),
    portalInvitation: byAddress('portal-invitation', sizes.PORTAL_INVITATION_PER_HOUR),
    shopperPages: byAddress('shopper-pages', sizes.SHOPPER_PAGES_PER_HOUR),
    shopperLookUps: limitOf('shopper-look-ups', sizes.SHOPPER_LOOK_UPS_PER_HOUR),
    shopifyInstall: byAddress('shopify-install', sizes.SHOPIFY_INSTALL_PER_HOUR),
    commerceEvents: limitOf('commerce-events', sizes.COMMERCE_EVENTS_PER_HOUR),
    mcpCalls: limitOf('mcp-calls', sizes.MCP_CALLS_PER_HOUR),
    reset() {
      for (const limit of limits) limit.reset();
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
      body: { contentType: 'application/json', json: errorBody(retryAfterS, unavailable) },
    });
  };
}

/**
 * One body with the fields of OAuth errors (RFC 6749, 5.2) and those of this API's errors, for both kinds of clients.
 */
function errorBody(retryAfterS: number, unavailable: true | undefined) {
  const reason = unavailable ? 'Sign-in is not available at the moment.' : 'Too many requests.';
  const message = `${reason} Try again in ${retryAfterS} s.`;
  return { error: 'temporarily_unavailable', error_description: message, message, errors: {} };
}
