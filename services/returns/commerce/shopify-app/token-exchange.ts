import { z } from 'zod';
import { describeFailure } from '../../../platform/outbound/failure.ts';
import { jsonOf } from '../../../platform/text.ts';
import type { ShopifyApp, ShopifyAppDeps } from './app.ts';
import { SCOPES_MAX, scopesIn } from './scopes.ts';

/** Shorter than the deadline of the call to this service. Milliseconds. */
const EXCHANGE_MS = 8_000;
/** How long a token is valid if Shopify does not say so. Seconds. */
const DEFAULT_TTL_S = 3_600;
/** A longer time is a mistake. Seconds. */
const MAX_TTL_S = 366 * 86_400;

const token = z.string().regex(/^[\x21-\x7e]{1,500}$/);
const ttl = z.number().positive().max(MAX_TTL_S);

const tokenAnswer = z.object({
  access_token: token,
  scope: z.string().max(SCOPES_MAX),
  expires_in: ttl.optional(),
  refresh_token: token.optional(),
});
const refreshAnswer = tokenAnswer.omit({ scope: true });

/** What gets the next access token, and the time limit of the present one. */
export interface Refresh {
  readonly refreshToken: string;
  /** Of the access token, from the answer on. Seconds. */
  readonly expiresInS: number;
}

/** What the merchant granted. */
export interface Grant {
  readonly accessToken: string;
  readonly scopes: readonly string[];
  /** Undefined for a token that does not expire. */
  readonly refresh: Refresh | undefined;
}

/** A refreshed token, or why there is none: Shopify refuses it permanently, or did not answer as documented. */
export type Refreshed =
  | ({ readonly accessToken: string } & Refresh)
  | { readonly failure: 'refused' | 'unavailable' };

interface Asking {
  readonly app: ShopifyApp;
  readonly shopDomain: string;
}

type TokenDeps = Pick<ShopifyAppDeps, 'client' | 'logger'>;

/**
 * Exchanges a code for an offline access token that expires. An app for which Shopify issues no such tokens gets one that
 * does not. Returns undefined, and logs why, when Shopify did not answer in time or answered something else. A code is
 * valid once.
 *
 * @see https://shopify.dev/docs/apps/build/authentication-authorization/access-tokens/authorization-code-grant
 */
export async function exchangeCode(
  deps: TokenDeps,
  o: Asking & { readonly code: string },
): Promise<Grant | undefined> {
  const answer = await request(deps, o, { code: o.code, expiring: '1' });
  const parsed = tokenAnswer.safeParse(answer?.json);
  if (answer?.status !== 200 || !parsed.success) {
    if (answer) {
      const fields = { store: o.shopDomain, status: answer.status };
      deps.logger.warn(fields, 'shopify: no token for a code');
    }
    return undefined;
  }
  const { access_token: accessToken, scope, refresh_token: refreshToken, expires_in } = parsed.data;
  const refresh = refreshToken && { refreshToken, expiresInS: expires_in ?? DEFAULT_TTL_S };
  return { accessToken, scopes: scopesIn(scope), refresh: refresh || undefined };
}

/** With these Shopify refuses a refresh token: it is unknown, expired or revoked. */
const REFUSED: ReadonlySet<number> = new Set([400, 401, 403]);

/**
 * Gets the next pair of tokens. Shopify accepts a refresh token again until its replacement is used, so a lost answer
 * loses nothing.
 *
 * @see https://shopify.dev/changelog/more-resilient-refreshes-for-expiring-offline-access-tokens
 */
export async function refreshToken(
  deps: TokenDeps,
  o: Asking & { readonly refreshToken: string },
): Promise<Refreshed> {
  const form = { grant_type: 'refresh_token', refresh_token: o.refreshToken };
  const answer = await request(deps, o, form);
  if (!answer) return { failure: 'unavailable' };
  const { status, json } = answer;
  const parsed = refreshAnswer.safeParse(json);
  if (status === 200 && parsed.success) {
    const { access_token: accessToken, refresh_token, expires_in } = parsed.data;
    // An answer without them must not end the chain.
    const expiresInS = expires_in ?? DEFAULT_TTL_S;
    return { accessToken, refreshToken: refresh_token ?? o.refreshToken, expiresInS };
  }
  deps.logger.warn({ store: o.shopDomain, status }, 'shopify: token not refreshed');
  // Only an answer of the token endpoint itself is final; a proxy or an outage page answers no JSON.
  const isRefusal = REFUSED.has(status) && z.object({ error: z.string() }).safeParse(json).success;
  return { failure: isRefusal ? 'refused' : 'unavailable' };
}

/** Undefined, and logged, without an answer. */
async function request(
  { client, logger }: TokenDeps,
  { app, shopDomain }: Asking,
  form: Readonly<Record<string, string>>,
): Promise<{ readonly status: number; readonly json: unknown } | undefined> {
  const { clientId: client_id, clientSecret: client_secret } = app;
  try {
    const answer = await client.post({
      url: `https://${shopDomain}/admin/oauth/access_token`,
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        accept: 'application/json',
      },
      body: new URLSearchParams({ client_id, client_secret, ...form }).toString(),
      signal: AbortSignal.timeout(EXCHANGE_MS),
    });
    return { status: answer.status, json: jsonOf(answer.body) };
  } catch (error) {
    const fields = { store: shopDomain, reason: describeFailure(error) };
    logger.warn(fields, 'shopify: no answer to a request for a token');
    return undefined;
  }
}
