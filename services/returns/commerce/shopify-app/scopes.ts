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
