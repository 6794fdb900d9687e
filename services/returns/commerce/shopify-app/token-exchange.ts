import { z } from 'zod';
import { describeFailure } from '../../../platform/outbound/failure.ts';
import type { ShopifyApp, ShopifyAppDeps } from './app.ts';
import { SCOPES_MAX, scopesIn } from './scopes.ts';
import type { Grant } from './stores.ts';

/** Shorter than the deadline of the call to this service. Milliseconds. */
const EXCHANGE_MS = 8_000;

const tokenAnswer = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]{1,500}$/),
  scope: z.string().max(SCOPES_MAX),
});

/**
 * Exchanges a code for an offline access token. Returns undefined, and logs why, when Shopify did not answer in time or
 * answered something else. A code is valid once.
 *
 * @see https://shopify.dev/docs/apps/build/authentication-authorization/access-tokens/authorization-code-grant
 */
export async function exchangeCode(
  { client, logger }: ShopifyAppDeps,
  o: { readonly app: ShopifyApp; readonly shopDomain: string; readonly code: string },
): Promise<Grant | undefined> {
  const body = new URLSearchParams({
    client_id: o.app.clientId,
    client_secret: o.app.clientSecret,
    code: o.code,
  });
  const fields = { store: o.shopDomain };
  try {
    const answer = await client.post({
      url: `https://${o.shopDomain}/admin/oauth/access_token`,
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        accept: 'application/json',
      },
      body: body.toString(),
      signal: AbortSignal.timeout(EXCHANGE_MS),
    });
    const grant = answer.status === 200 ? grantIn(answer.body) : undefined;
    if (!grant) logger.warn({ ...fields, status: answer.status }, 'shopify: no token for a code');
    return grant;
  } catch (error) {
    logger.warn({ ...fields, reason: describeFailure(error) }, 'shopify: no token for a code');
    return undefined;
  }
}

/** Undefined for an answer that is not as documented. */
function grantIn(body: string): Grant | undefined {
  try {
    const { access_token: accessToken, scope } = tokenAnswer.parse(JSON.parse(body));
    return { accessToken, scopes: scopesIn(scope) };
  } catch {
    return undefined;
  }
}
