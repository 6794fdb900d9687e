import { createHash } from 'node:crypto';
import { MAX_ID } from '../../../platform/ids.ts';
import { CommerceFailure } from '../provider.ts';

/** Returns the global id of Shopify for a number, such as `gid://shopify/Order/445`. */
export function gidOf(type: string, id: bigint): string {
  return `gid://shopify/${type}/${id}`;
}

/** Returns the number at the end of a global id, as a text. @throws CommerceFailure `passing`, when there is none. */
export function numberOf(gid: string): string {
  const [, number] = /\/([1-9]\d{0,15})$/.exec(gid) ?? [];
  if (number !== undefined && BigInt(number) <= MAX_ID) return number;
  throw new CommerceFailure('passing', 'Shopify: its answer has an invalid id');
}

/**
 * Returns the UUID (version 8) of an idempotency key. A key always has the same UUID, because a repeated request must
 * send the same UUID.
 */
export function uuidOf(key: string): string {
  const hex = createHash('sha256').update(key).digest('hex');
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}
