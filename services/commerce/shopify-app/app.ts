import { createHmac, timingSafeEqual } from 'node:crypto';
import type pg from 'pg';
import type { Keyring } from '../../platform/security/keyring.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import type { CommerceClient } from '../http/client.ts';

/** The app that merchants install in their stores. Its values are in the Dev Dashboard of Shopify. */
export interface ShopifyApp {
  readonly clientId: string;
  /** The secret with which Shopify signs what it sends. It is also needed to exchange codes for tokens. */
  readonly clientSecret: string;
  /** Additional scopes that installs ask for. A store may be connected without them. */
  readonly extraScopes: readonly string[];
}

/** A shop, and its store at Shopify. */
export interface Store {
  readonly shopId: bigint;
  /** Domain of the store, such as `example.myshopify.com`. */
  readonly shopDomain: string;
}

export interface ShopifyAppDeps {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly client: CommerceClient;
  /** Undefined when SHOPIFY_CLIENT_ID is not set. */
  readonly app: ShopifyApp | undefined;
  /** Encrypts tokens; undefined when COMMERCE_KEYRING is not set. */
  readonly keyring: Keyring | undefined;
}

/**
 * The scopes that the adapter for Shopify needs. docs/commerce-shopify-install.md says why. Some scopes need Shopify's
 * approval, and an app without it cannot ask for them: see SHOPIFY_EXTRA_SCOPES.
 */
export const NEEDED_SCOPES: readonly string[] = [
  'write_orders',
  'write_draft_orders',
  'write_gift_cards',
  'write_customers',
  'read_products',
  'write_inventory',
  'read_locations',
];

/** Maximum length of a list of scopes. Characters. */
export const SCOPES_MAX = 4_000;

/** Returns the scopes in a list that Shopify sent, separated by commas. */
export function scopesIn(list: string): readonly string[] {
  return list
    .split(',')
    .map((scope) => scope.trim())
    .filter((scope) => scope !== '');
}

/** Returns the needed scopes that the store did not grant. A scope to write includes the scope to read. */
export function missingScopes(granted: readonly string[]): readonly string[] {
  const isGranted = (scope: string): boolean =>
    granted.includes(scope) || granted.includes(scope.replace(/^read_/, 'write_'));
  return NEEDED_SCOPES.filter((scope) => !isGranted(scope));
}

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
