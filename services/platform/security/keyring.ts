import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { z } from 'zod';

/** Encrypts secrets that are stored. The first key encrypts, and every key decrypts. */
export interface Keyring {
  /** @param context the owner of the secret. `decrypt` needs the same text. */
  encrypt(secret: string, context: string): { keyId: string; encrypted: Uint8Array };
  /** @throws when the keyring has no such key, or when the secret was encrypted for another context. */
  decrypt(keyId: string, encrypted: Uint8Array, context: string): string;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';

/** Matches one entry: `id:base64` of 32 bytes. */
const ENTRY = /^([A-Za-z0-9_-]{1,50}):([A-Za-z0-9+/]{43}=)$/;

/**
 * Parses a keyring: entries `id:base64-of-32-bytes`, separated by commas.
 *
 * @throws Error when the text is malformed. The message does not contain the text.
 */
export function parseKeyring(text: string): Keyring {
  return createKeyring(parseKeys(text));
}

/**
 * Returns the keys of a keyring by id, in the order of the text.
 *
 * @throws Error when the text is malformed. The message does not contain the text.
 */
export function parseKeys(text: string): ReadonlyMap<string, KeyObject> {
  const keys = new Map<string, KeyObject>();
  for (const entry of text.split(',')) {
    const [, id, encoded] = ENTRY.exec(entry.trim()) ?? [];
    if (id === undefined || encoded === undefined || keys.has(id)) {
      throw new Error(
        'a keyring is id:base64 of 32 bytes, several separated by commas, ids unique',
      );
    }
    keys.set(id, createSecretKey(encoded, 'base64'));
  }
  return keys;
}

/** An environment variable that contains a keyring. */
export const keyringText = z
  .string()
  .refine(
    isKeyring,
    'must be id:base64 of 32 bytes, several separated by commas; the first key encrypts',
  );

function isKeyring(text: string): boolean {
  try {
    parseKeys(text);
    return true;
  } catch {
    return false;
  }
}

/** Returns a keyring with one new key, for stacks that create their own. */
export function newKeyringText(id = 'k1'): string {
  return `${id}:${randomBytes(KEY_BYTES).toString('base64')}`;
}

function createKeyring(keys: ReadonlyMap<string, KeyObject>): Keyring {
  const keyOf = (id: string): KeyObject => {
    const key = keys.get(id);
    if (!key) throw new Error(`the keyring has no key "${id}"`);
    return key;
  };
  const [first] = keys.keys();
  return {
    encrypt(secret, context) {
      const keyId = first ?? '';
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, keyOf(keyId), nonce).setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
      return { keyId, encrypted: Buffer.concat([nonce, cipher.getAuthTag(), text]) };
    },
    decrypt(keyId, encrypted, context) {
      const nonce = encrypted.subarray(0, NONCE_BYTES);
      const tag = encrypted.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
      const text = encrypted.subarray(NONCE_BYTES + TAG_BYTES);
      const decipher = createDecipheriv(CIPHER, keyOf(keyId), nonce)
        .setAAD(Buffer.from(context))
        .setAuthTag(tag);
      return Buffer.concat([decipher.update(text), decipher.final()]).toString('utf8');
    },
  };
}
