import { createHash, randomBytes } from 'node:crypto';

/** A secret for a link, a state or a cookie: 43 characters. The database has its hash only. */
export function newLinkSecret(): string {
  return randomBytes(32).toString('base64url');
}

/** The stored form of a secret. Its 256 random bits need no slow hash. */
export function hashOfSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
