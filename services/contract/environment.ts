/** Marks responses to callers of sandbox shops, and their webhooks. Live shops never have it. */
export const ENVIRONMENT_HEADER = 'X-Service-Environment';
export const SANDBOX = 'sandbox';

/** Returns the headers that tell a sandbox shop from a live one. */
export function environmentHeaders(shop: { readonly sandbox: boolean }): Record<string, string> {
  return shop.sandbox ? { [ENVIRONMENT_HEADER]: SANDBOX } : {};
}
