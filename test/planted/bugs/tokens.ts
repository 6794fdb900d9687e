import type { Bug } from '../bug.ts';

const TOKENS = ['services/commerce/shopify-app/access-tokens.test.ts'];
const ADAPTER = ['services/commerce/shopify/adapter.test.ts'];
const WEBHOOKS = 'services/commerce/shopify-app/receive-webhook.ts';
const STORE = 'services/commerce/shopify-app/token-store.ts';

/** Bugs in the access to stores at Shopify. Each ends the access of a shop, or makes a second gift card. */
export const tokenBugs: readonly Bug[] = [
  {
    name: 'token-refreshed-twice',
    promise: 'of several processes one refreshes a token',
    file: STORE,
    find: 'refreshing_until is not distinct from $4::timestamptz and ',
    replace: '$4::timestamptz is null or shop_id = $1 and ',
    tests: ['services/commerce/shopify-app/token-claims.test.ts'],
  },
  {
    name: 'refresh-token-kept',
    promise: 'a refresh stores both tokens',
    file: STORE,
    find: 'refresh_key_id = $6, refresh_sealed = $7, refreshed_at = now()',
    replace:
      'refresh_key_id = coalesce(refresh_key_id, $6), refresh_sealed = coalesce(refresh_sealed, $7), refreshed_at = now()',
    tests: TOKENS,
  },
  {
    name: 'refused-access-asked-again',
    promise: 'nobody asks Shopify again at once after a failure',
    file: STORE,
    find: 'set refreshing_until = now() + $3::float8',
    replace: 'set refreshing_until = now() - $3::float8',
    tests: TOKENS,
  },
  {
    name: 'rejected-token-used',
    promise: 'a token that Shopify does not accept is refreshed',
    file: STORE,
    find: 'set expires_at = least(expires_at, now())',
    replace: 'set expires_at = expires_at',
    tests: TOKENS,
  },
  {
    name: 'code-of-card-from-token',
    promise: 'a gift card has the same code after the token was refreshed',
    file: 'services/commerce/shopify/adapter.ts',
    find: 'codeSecret: shop.codeSecret,',
    replace: 'codeSecret: shop.accessToken,',
    tests: ADAPTER,
  },
  {
    name: 'code-of-card-from-install',
    promise: 'a gift card has the same code after the app was removed and installed again',
    file: WEBHOOKS,
    find: 'c set uninstalled_at = coalesce($2, now())',
    replace: 'c set uninstalled_at = coalesce($2, now()), code_key_id = null, code_sealed = null',
    tests: TOKENS,
  },
];
