import { createHash, randomBytes } from 'node:crypto';

/** Returns a new secret of 43 characters for a link, a state or a cookie. The database has only its hash. */
export function newLinkSecret(): string {
  return randomBytes(32).toString('base64url');
}

/** Returns the stored form of a secret. A slow hash is not needed, because a secret has 256 random bits. */
export function hashOfSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
