import { z } from 'zod';
import { describeFailure } from '../../platform/outbound/failure.ts';
import { jsonOf } from '../../platform/values/text.ts';
import type { ShopifyApp, ShopifyAppDeps } from './app.ts';
import { SCOPES_MAX, scopesIn } from './app.ts';

/** Time limit of an exchange. It is shorter than the deadline of the call to this service. Milliseconds. */
const EXCHANGE_MS = 8_000;
/** How long a token is valid if Shopify does not say so. Seconds. */
const DEFAULT_TTL_S = 3_600;
/** Longer lifetimes in an answer are mistakes. Seconds. */
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

/** What is needed to get the next access token, and the lifetime of the current one. */
export interface Refresh {
  readonly refreshToken: string;
  /** Lifetime of the access token, from the answer on. Seconds. */
  readonly expiresInS: number;
}

/** The tokens that the merchant granted. */
export interface Grant {
  readonly accessToken: string;
  readonly scopes: readonly string[];
  /** Undefined when the access token does not expire. */
  readonly refresh: Refresh | undefined;
}

/**
 * A refreshed token, or the reason why there is none. `refused`: Shopify refuses it permanently. `unavailable`: Shopify
 * did not answer as documented.
 */
export type Refreshed =
  | ({ readonly accessToken: string } & Refresh)
  | { readonly failure: 'refused' | 'unavailable' };

interface Asking {
  readonly app: ShopifyApp;
  readonly shopDomain: string;
}

type TokenDeps = Pick<ShopifyAppDeps, 'client' | 'logger'>;

/**
 * Exchanges a code for an offline access token that expires. For some apps Shopify issues only tokens that do not
 * expire; then it gets one of these. When Shopify does not answer in time, or answers something else, returns undefined
 * and logs why. A code is valid once.
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

/** Statuses with which Shopify refuses a refresh token that is unknown, expired or revoked. */
const REFUSED: ReadonlySet<number> = new Set([400, 401, 403]);

/**
 * Gets the next pair of tokens. Shopify accepts a refresh token again until its replacement is used. So nothing is lost
 * when the answer gets lost.
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
    // An answer without these values must not end the refreshes. So keep the old refresh token, and use the default
    // lifetime.
    const expiresInS = expires_in ?? DEFAULT_TTL_S;
    return { accessToken, refreshToken: refresh_token ?? o.refreshToken, expiresInS };
  }
  deps.logger.warn({ store: o.shopDomain, status }, 'shopify: token not refreshed');
  // A refusal is final only when the token endpoint itself sent it. A proxy or an outage page does not answer with
  // JSON.
  const isRefusal = REFUSED.has(status) && z.object({ error: z.string() }).safeParse(json).success;
  return { failure: isRefusal ? 'refused' : 'unavailable' };
}

/** Sends a request. Without an answer, logs this and returns undefined. */
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
