import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { ServiceConfig } from '../process/config.ts';
import { newKeyringText, parseKeys } from '../security/keyring.ts';
import type { BusRecord, ReceivedRecord } from './event-bus.ts';

/** The keys with which our processes sign records. A valid signature proves that one of them published the record. */
export interface EventSignatures {
  /** The keys by id. The first key signs, and every key verifies. */
  readonly keys: ReadonlyMap<string, KeyObject>;
}

/** The result of a check: `valid`, or the reason to skip the record. */
export type SignatureCheck = 'valid' | 'unsigned' | 'unknown_key' | 'forged' | 'expired';

/**
 * The header with the signature: `v1,<key id>,<time of the signature, milliseconds since 1970>,<HMAC-SHA256 in
 * base64>`.
 */
export const SIGNATURE_HEADER = 'event-signature';
const VERSION = 'v1';
const SIGNATURE = /^v1,([A-Za-z0-9_-]{1,50}),(\d{1,15}),([A-Za-z0-9+/]{43}=)$/;
/** Part of each signed text, so that a signature for another purpose is never valid for an event. */
const PURPOSE = 'rms.event.v1';

/** Returns the signatures that the environment variables configure. */
export function signaturesFromConfig(
  config: Pick<ServiceConfig, 'EVENT_KEYRING'>,
): EventSignatures {
  return { keys: config.EVENT_KEYRING };
}

/** Returns signatures with a new key, for stacks and tests in one process. */
export function newEventSignatures(keyring = newKeyringText()): EventSignatures {
  return { keys: parseKeys(keyring) };
}

/**
 * Adds a signature header to the record. The signature covers the topic, the key, the time and every byte of the value.
 */
export function signRecord(
  topic: string,
  record: BusRecord,
  o: { signatures: EventSignatures; now: number },
): BusRecord {
  const [first] = o.signatures.keys;
  if (!first) throw new Error('the event keyring is empty');
  const [keyId, key] = first;
  const mac = macOf(key, { topic, record, signedAt: o.now }).toString('base64');
  const signature = `${VERSION},${keyId},${o.now},${mac}`;
  return { ...record, headers: { ...record.headers, [SIGNATURE_HEADER]: signature } };
}

/**
 * Checks the signature of a received record.
 *
 * @param o.maxAgeMs maximum age of a valid signature. A copy of an older record is rejected, because listeners may no
 *   longer recognize it as a duplicate.
 */
export function checkSignature(
  record: ReceivedRecord,
  o: { signatures: EventSignatures; now: number; maxAgeMs: number },
): SignatureCheck {
  const text = record.headers[SIGNATURE_HEADER];
  if (text === undefined) return 'unsigned';
  const [, keyId = '', time = '', signature = ''] = SIGNATURE.exec(text) ?? [];
  if (keyId === '') return 'forged';
  const key = o.signatures.keys.get(keyId);
  if (!key) return 'unknown_key';
  const signedAt = Number(time);
  const expected = macOf(key, { topic: record.topic, record, signedAt });
  if (!timingSafeEqual(expected, Buffer.from(signature, 'base64'))) return 'forged';
  return o.now - signedAt > o.maxAgeMs ? 'expired' : 'valid';
}

interface Signed {
  readonly topic: string;
  readonly record: BusRecord;
  readonly signedAt: number;
}

/**
 * Returns the HMAC of a record. A JSON text contains no raw line break, so two different inputs never have the same
 * bytes.
 */
function macOf(key: KeyObject, { topic, record, signedAt }: Signed): Buffer {
  const header = JSON.stringify([PURPOSE, signedAt, topic, record.key]);
  return createHmac('sha256', key).update(`${header}\n`).update(record.value).digest();
}
