import { createHash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** An API key taken apart: `rms_<key id>_<secret>`. */
export interface ParsedKey {
  readonly keyId: string;
  /** 40 random characters and 6 of checksum. */
  readonly secret: string;
}

const KEY_ID_LENGTH = 12;
const RANDOM_LENGTH = 40;
const CHECKSUM_LENGTH = 6;

const BASE36 = '0123456789abcdefghijklmnopqrstuvwxyz';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const FORM = /^rms_([a-z0-9]{12})_([A-Za-z0-9]{40})([A-Za-z0-9]{6})$/;

/** A new key; its text is shown once and never stored. */
export function newKey(): ParsedKey & { readonly text: string } {
  const keyId = randomText(BASE36, KEY_ID_LENGTH);
  const random = randomText(BASE62, RANDOM_LENGTH);
  const secret = `${random}${checksumOf(keyId, random)}`;
  return { keyId, secret, text: `rms_${keyId}_${secret}` };
}

/**
 * Takes a key apart; undefined when it has not the form of one or its checksum is wrong.
 *
 * The checksum lets typing errors and secret scanners be judged without a database. It proves nothing.
 */
export function parseKey(text: string): ParsedKey | undefined {
  const [, keyId, random, checksum] = FORM.exec(text) ?? [];
  if (keyId === undefined || random === undefined || checksum === undefined) return undefined;
  if (checksumOf(keyId, random) !== checksum) return undefined;
  return { keyId, secret: `${random}${checksum}` };
}

const BEGINNING = /^rms_([a-z0-9]{12})_/;

/** The key id in a text that begins as a key does, however it goes on; undefined in any other. */
export function keyIdIn(text: string): string | undefined {
  return BEGINNING.exec(text)?.[1];
}

/** What is stored of a secret. It has 238 random bits, so a slow hash would add nothing. */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

function checksumOf(keyId: string, random: string): string {
  let rest = crc32(`rms_${keyId}_${random}`);
  let text = '';
  for (let place = 0; place < CHECKSUM_LENGTH; place += 1) {
    text = BASE62.charAt(rest % BASE62.length) + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}

function randomText(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('');
}
