import { createHmac, timingSafeEqual } from 'node:crypto';

const HEX = /^[0-9a-f]{64}$/;
const BASE64 = /^[A-Za-z0-9+/]{43}=$/;

/**
 * Whether Shopify signed the query: `hmac` is the HMAC-SHA256 of the other parameters, sorted by name and encoded as a
 * form. This is how Shopify's libraries for JavaScript and Ruby verify it.
 *
 * @see https://shopify.dev/docs/apps/build/authentication-authorization/access-tokens/authorization-code-grant
 */
export function isSignedQuery(query: URLSearchParams, secret: string): boolean {
  const hmac = query.get('hmac') ?? '';
  if (!HEX.test(hmac)) return false;
  const signed = new URLSearchParams([...query].filter(([name]) => name !== 'hmac'));
  signed.sort();
  return isHmac(signed.toString(), secret, Buffer.from(hmac, 'hex'));
}

/**
 * Whether Shopify signed the body of a webhook: `X-Shopify-Hmac-Sha256` is the HMAC-SHA256 of its bytes, in base64.
 *
 * @see https://shopify.dev/docs/apps/build/webhooks/subscribe/https
 */
export function isSignedBody(body: Uint8Array, secret: string, hmac: string): boolean {
  return BASE64.test(hmac) && isHmac(body, secret, Buffer.from(hmac, 'base64'));
}

function isHmac(content: string | Uint8Array, secret: string, hmac: Buffer): boolean {
  return timingSafeEqual(createHmac('sha256', secret).update(content).digest(), hmac);
}
