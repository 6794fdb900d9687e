import { createHash, createHmac, randomBytes } from 'node:crypto';

/** The keyring: the first key derives new tokens; the other keys may have derived older ones. */
export type TokenKeys = ReadonlyMap<string, Buffer>;

const TOKEN_BYTES = 32;
/** Separates this use of a key from its other uses. */
const PURPOSE = 'rms.cart.token.v1';

/** A random token: 32 bytes, base64url. */
export function randomToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

/**
 * The possible tokens for a shop's idempotency key, one for each key of the keyring. A new cart gets the first one.
 * Only the hash of a token is stored, so a repeated call derives the token again.
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
