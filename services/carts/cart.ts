import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { BODY_BYTES_MAX, CART_ENTRIES_MAX } from '../contract/limits.ts';
import { DomainError } from '../platform/errors.ts';
import { callerShape, id, optionalIdempotencyKey, text } from '../platform/input.ts';
import { isBase64 } from '../platform/text.ts';

/** A cart is kept for this time. Days. */
export const CART_DAYS = 30;

/** One entry. `objectJson` is the JSON text that was sent; it is empty for a bare variant id. */
const entry = z
  .object({ variantId: id, objectJson: text(BODY_BYTES_MAX) })
  .refine(({ variantId, objectJson }) => objectJson === '' || hasVariant(objectJson, variantId), {
    path: ['objectJson'],
    message: 'must be a JSON object with the same variant_id',
  });

/** `shopify` may be a text, null or absent. The service does not interpret its content. */
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

/** Built once, because building a schema costs more than parsing an entry. */
const cartObject = z.looseObject({ variant_id: z.number() });

function hasVariant(objectJson: string, variantId: bigint): boolean {
  try {
    const { data } = cartObject.safeParse(JSON.parse(objectJson));
    return data?.variant_id === Number(variantId);
  } catch {
    return false;
  }
}

/** A stored cart. */
export interface Cart {
  /** 32 bytes, base64url. Every caller of the shop that has it can read the cart. Only its hash is stored. */
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

/** The same error for an unknown token, for the token of another shop and for an expired cart. */
export function cartNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.CART_NOT_FOUND, 'the cart does not exist');
}
