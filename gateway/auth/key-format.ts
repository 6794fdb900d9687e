import { createHash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The parts of an API key: `rms_<key id>_<secret>` of a live shop, `rms_test_<key id>_<secret>` of a sandbox. */
export interface ParsedKey {
  /** Whether the prefix of the key is that of a sandbox shop. */
  readonly sandbox: boolean;
  readonly keyId: string;
  /** 40 random characters and 6 of checksum. */
  readonly secret: string;
}

const KEY_ID_LENGTH = 12;
const RANDOM_LENGTH = 40;
const CHECKSUM_LENGTH = 6;

const BASE36 = '0123456789abcdefghijklmnopqrstuvwxyz';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const PREFIX = 'rms_';
const SANDBOX_PREFIX = 'rms_test_';

const FORM = /^rms_(test_)?([a-z0-9]{12})_([A-Za-z0-9]{40})([A-Za-z0-9]{6})$/;

/** Creates a key. Its text is shown once and never stored. */
export function newKey({ sandbox } = { sandbox: false }): ParsedKey & { readonly text: string } {
  return keyOf(randomText(BASE36, KEY_ID_LENGTH), randomText(BASE62, RANDOM_LENGTH), { sandbox });
}

/** Creates another secret for the id of a key. */
export function newSecretFor(
  keyId: string,
  { sandbox }: { readonly sandbox: boolean },
): ParsedKey & { readonly text: string } {
  return keyOf(keyId, randomText(BASE62, RANDOM_LENGTH), { sandbox });
}

/**
 * Creates a key from an id of 12 characters and a secret of 40. Other code calls this directly only for keys that need
 * not be secret.
 */
export function keyOf(
  keyId: string,
  random: string,
  { sandbox } = { sandbox: false },
): ParsedKey & { readonly text: string } {
  const beginning = `${sandbox ? SANDBOX_PREFIX : PREFIX}${keyId}_`;
  const secret = `${random}${checksumOf(`${beginning}${random}`)}`;
  return { sandbox, keyId, secret, text: `${beginning}${secret}` };
}

/**
 * Parses a key. Returns undefined when its form or its checksum is wrong.
 *
 * The checksum detects typing errors, and secret scanners recognize keys by it. Neither needs a database. The checksum
 * is not a security feature.
 */
export function parseKey(text: string): ParsedKey | undefined {
  const [, test, keyId, random, checksum] = FORM.exec(text) ?? [];
  if (keyId === undefined || random === undefined || checksum === undefined) return undefined;
  if (checksumOf(text.slice(0, -CHECKSUM_LENGTH)) !== checksum) return undefined;
  return { sandbox: test !== undefined, keyId, secret: `${random}${checksum}` };
}

const BEGINNING = /^rms_(?:test_)?([a-z0-9]{12})_/;

/** Returns the key id of a text that begins like a key, even if the rest is invalid; undefined for other texts. */
export function keyIdIn(text: string): string | undefined {
  return BEGINNING.exec(text)?.[1];
}

/** The stored hash of a secret. The secret has 238 random bits, so a slow hash is not needed. */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** The checksum of a key, computed from all characters before it. */
function checksumOf(beginning: string): string {
  let rest = crc32(beginning);
  let text = '';
  for (let digit = 0; digit < CHECKSUM_LENGTH; digit += 1) {
    text = BASE62.charAt(rest % BASE62.length) + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}

function randomText(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('');
}
