import {
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;

/** Returns a new signing secret: `whsec_` and base64 of 32 random bytes. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/**
 * Returns the signing key of a secret. Callers should cache it, because a new key for each signature would cost three
 * times as much.
 */
export function signingKeyOf(secret: string): KeyObject {
  return createSecretKey(secret.slice(PREFIX.length), 'base64');
}

/**
 * Returns the `webhook-signature` of one attempt (Standard Webhooks). It has one signature for each valid secret,
 * separated by spaces: `v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`.
 *
 * @param keys from {@link signingKeyOf}.
 * @param o.timestamp seconds since 1970.
 */
export function sign(
  keys: readonly KeyObject[],
  o: { id: string; timestamp: number; body: Uint8Array },
): string {
  const start = `${o.id}.${o.timestamp}.`;
  return keys
    .map((key) => {
      const mac = createHmac('sha256', key).update(start).update(o.body);
      return `v1,${mac.digest('base64')}`;
    })
    .join(' ');
}

/** Maximum number of signatures in a header that are checked. */
const MAX_SIGNATURES = 10;

/**
 * Whether a `webhook-signature` has a signature of one of the keys. Compares in constant time. The caller must check
 * the timestamp.
 */
export function isSigned(
  keys: readonly KeyObject[],
  header: string,
  o: { id: string; timestamp: number; body: Uint8Array },
): boolean {
  const sent = header.split(' ', MAX_SIGNATURES).map((one) => Buffer.from(one));
  const valid = keys.map((key) => Buffer.from(sign([key], o)));
  return valid.some((one) =>
    sent.some((other) => other.length === one.length && timingSafeEqual(other, one)),
  );
}
