import { createHmac, randomBytes } from 'node:crypto';

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;

/** A new signing secret: `whsec_` and base64 of 32 random bytes. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/**
 * The `webhook-signature` of one attempt (Standard Webhooks): `v1,` and base64 of
 * HMAC-SHA256 over `id.timestamp.body`, one for each secret in force, separated by spaces.
 *
 * @param o.timestamp seconds since the epoch.
 */
export function sign(
  secrets: readonly string[],
  o: { id: string; timestamp: number; body: Uint8Array },
): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), 'base64');
      const mac = createHmac('sha256', key).update(`${o.id}.${o.timestamp}.`).update(o.body);
      return `v1,${mac.digest('base64')}`;
    })
    .join(' ');
}
