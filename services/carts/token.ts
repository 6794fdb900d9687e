import { createHash, createHmac, randomBytes } from 'node:crypto';

/** Keys of which the first derives tokens, and every one may have derived a token before. */
export type TokenKeys = ReadonlyMap<string, Buffer>;

const TOKEN_BYTES = 32;
/** Separates this use of a key from every other one. */
const PURPOSE = 'rms.cart.token.v1';

/** A token that nobody can guess: 32 random bytes, base64url. */
export function randomToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

/**
 * The tokens that a shop's idempotency key stands for, by each key of the ring; the first is the one of a
 * new cart. A repeat must answer the token, of which only the hash is stored: it is derived again.
 */
export function tokensOf(keys: TokenKeys, shopId: bigint, idempotencyKey: string): string[] {
  const about = JSON.stringify([PURPOSE, String(shopId), idempotencyKey]);
  return [...keys.values()].map((key) =>
    createHmac('sha256', key).update(about).digest('base64url'),
  );
}

/** What is stored of a token: its SHA-256, base64url. */
export function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
