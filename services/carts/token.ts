import { createHash, createHmac, randomBytes } from 'node:crypto';

/** The keyring. Its first key derives new tokens. Its other keys may have derived older ones. */
export type TokenKeys = ReadonlyMap<string, Buffer>;

const TOKEN_BYTES = 32;
/** Separates tokens of carts from the other uses of the same key. */
const PURPOSE = 'rms.cart.token.v1';

/** A random token: 32 bytes, base64url. */
export function randomToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

/**
 * Returns the tokens that can be derived from an idempotency key of a shop: one for each key of the keyring. A new cart
 * gets the first one. The table has only the hash of a token, so a repeated call derives the token again.
 */
export function tokensOf(keys: TokenKeys, shopId: bigint, idempotencyKey: string): string[] {
  const content = JSON.stringify([PURPOSE, String(shopId), idempotencyKey]);
  return [...keys.values()].map((key) =>
    createHmac('sha256', key).update(content).digest('base64url'),
  );
}

/** The stored hash of a token: SHA-256, base64url. */
export function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
