/**
 * The permanent domain of a store. Requests with the client secret go to it, so nothing else may pass: no port, no user,
 * no other host.
 */
const SHOP_DOMAIN = /^[a-z0-9][a-z0-9-]{0,59}\.myshopify\.com$/;

export function isShopDomain(text: string): boolean {
  return SHOP_DOMAIN.test(text);
}
