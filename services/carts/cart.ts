import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { isInteger, numberOf, parseExactJson } from '../contract/exact-json.ts';
import { BODY_BYTES_MAX, CART_ENTRIES_MAX } from '../contract/limits.ts';
import { DomainError } from '../platform/errors.ts';
import { callerShape, id, optionalIdempotencyKey, text } from '../platform/input.ts';
import { isBase64 } from '../platform/text.ts';

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
