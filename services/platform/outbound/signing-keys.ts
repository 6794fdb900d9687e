import type { KeyObject } from 'node:crypto';
import type { Keyring } from '../security/keyring.ts';
import { signingKeyOf } from './signature.ts';

/** Maximum number of decrypted secrets in memory. Above it, the oldest is removed. */
const MAX_CACHED = 10_000;

/**
 * Decrypts signing secrets from their stored form: `key-id:hex`, separated by commas. They are cached by their
 * encrypted form, so that a rotated secret is a new entry.
 *
 * @param context the owner of the secrets, see `SecretStore.contextOf`.
 */
export type SigningKeys = (context: string, encryptedSecrets: string) => readonly KeyObject[];

export function createSigningKeys(keyring: Keyring): SigningKeys {
  const cache = new Map<string, readonly KeyObject[]>();
  return (context, encryptedSecrets) => {
    const name = `${context} ${encryptedSecrets}`;
    const cached = cache.get(name);
    if (cached) return cached;
    const keys = encryptedSecrets.split(',').map((entry) => {
      const colon = entry.lastIndexOf(':');
      const bytes = Buffer.from(entry.slice(colon + 1), 'hex');
      return signingKeyOf(keyring.decrypt(entry.slice(0, colon), bytes, context));
    });
    const [oldest] = cache.keys();
    if (cache.size >= MAX_CACHED && oldest !== undefined) cache.delete(oldest);
    cache.set(name, keys);
    return keys;
  };
}
