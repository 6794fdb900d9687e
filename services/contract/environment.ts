/** This header marks responses to callers of sandbox shops, and webhooks of sandbox shops. Live shops never have it. */
export const ENVIRONMENT_HEADER = 'X-Service-Environment';
export const SANDBOX = 'sandbox';

/** Returns the headers that mark a sandbox shop. There are none for a live shop. */
export function environmentHeaders(shop: { readonly sandbox: boolean }): Record<string, string> {
  return shop.sandbox ? { [ENVIRONMENT_HEADER]: SANDBOX } : {};
}
