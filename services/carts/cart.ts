import { createHash, createHmac, type KeyObject, randomBytes } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { BODY_BYTES_MAX, CART_ENTRIES_MAX } from '../contract/limits.ts';
import { isInteger, numberOf, parseExactJson } from '../contract/validate/exact-json.ts';
import { DomainError } from '../platform/values/errors.ts';
import { callerShape, id, optionalIdempotencyKey, text } from '../platform/values/input.ts';
import { isBase64 } from '../platform/values/text.ts';

/** How long a cart is kept. Days. */
export const CART_DAYS = 30;

/** One entry. `objectJson` is the JSON text that the client sent. It is empty when the entry is only a variant id. */
const entry = z
  .object({ variantId: id, objectJson: text(BODY_BYTES_MAX) })
  .refine(({ variantId, objectJson }) => objectJson === '' || hasVariant(objectJson, variantId), {
    path: ['objectJson'],
    message: 'must be a JSON object with the same variant_id',
  });

/** `shopify` may be a text, null or absent. The service stores it and does not interpret it. */
export const newCart = z
  .object({
    ...callerShape,
    idempotencyKey: optionalIdempotencyKey,
    entries: z
      .array(entry)
      .min(1, `must have 1 to ${CART_ENTRIES_MAX} entries`)
      .max(CART_ENTRIES_MAX, `must have 1 to ${CART_ENTRIES_MAX} entries`),
    shopify: text(BODY_BYTES_MAX).refine(isBase64, 'must be Base64').optional(),
    shopifyNull: z.boolean(),
  })
  .refine(({ shopify, shopifyNull }) => shopify === undefined || !shopifyNull, {
    path: ['shopifyNull'],
    message: 'must not be set together with shopify',
  });
export type NewCart = z.infer<typeof newCart>;

function hasVariant(objectJson: string, variantId: bigint): boolean {
  try {
    // With all digits, because JSON.parse would round `9007199254740991.4` to an id.
    const variant: unknown = Reflect.get(Object(parseExactJson(objectJson)), 'variant_id');
    return isInteger(variant) && numberOf(variant) === Number(variantId);
  } catch {
    return false;
  }
}

/** A stored cart. */
export interface Cart {
  /** 32 bytes, base64url. Every caller of the shop who has the token can read the cart. The table has only its hash. */
  readonly token: string;
  readonly entries: readonly { readonly variantId: bigint; readonly objectJson: string }[];
  readonly shopify: string | undefined;
  readonly shopifyNull: boolean;
  readonly createdAt: Date;
}

export function keyConflict(): DomainError {
  return new DomainError(
    Code.AlreadyExists,
    ErrorReason.IDEMPOTENCY_CONFLICT,
    'the idempotency key was used for another cart',
    { field: 'idempotency_key' },
  );
}

/** One error for an unknown token, the token of another shop and an expired cart, so that they look the same. */
export function cartNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.CART_NOT_FOUND, 'the cart does not exist');
}

/** The keyring. Its first key derives new tokens. Its other keys may have derived older ones. */
export type TokenKeys = ReadonlyMap<string, KeyObject>;

const TOKEN_BYTES = 32;
/** Separates tokens of carts from the other uses of the same key. */
const PURPOSE = 'rms.cart.token.v1';

/** A random token: 32 bytes, base64url. */
export function randomToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

/**
 * Returns the tokens that can be derived from an idempotency key of a shop: one for each key of the keyring. A new cart
 * gets the first one. The table has only the hash of a token, so a repeated call derives the token again.
 */
export function tokensOf(keys: TokenKeys, shopId: bigint, idempotencyKey: string): string[] {
  const content = JSON.stringify([PURPOSE, String(shopId), idempotencyKey]);
  return [...keys.values()].map((key) =>
    createHmac('sha256', key).update(content).digest('base64url'),
  );
}

/** The stored hash of a token: SHA-256, base64url. */
export function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
