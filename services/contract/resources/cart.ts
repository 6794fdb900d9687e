import { z } from 'zod';
import { isBase64 } from '../../platform/values/text.ts';
import { CART_ENTRIES_MAX } from '../limits.ts';
import { isInteger, type NumberText, numberOf } from '../validate/exact-json.ts';
import { ownBound, textError, typed } from './fields.ts';
import { means } from './response-fields.ts';

export type CartEntryValue = number | NumberText | Readonly<Record<string, unknown>>;

const ID_RULE = 'must be an integer from 1 to 9007199254740991';
const idSchema = { type: 'integer' as const, minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
const variantSchema = {
  ...idSchema,
  description: 'Identifier of the product variant at the commerce provider',
};
const entrySchema = {
  anyOf: [
    idSchema,
    {
      type: 'object' as const,
      properties: { variant_id: variantSchema },
      required: ['variant_id'],
    },
  ],
};

/** One entry: a variant id, or an object with a variant id. The response repeats the object with all its keys. */
const entry = z
  .custom<CartEntryValue>()
  .superRefine((value: unknown, context) => {
    const error = entryError(value);
    if (error) context.addIssue({ code: 'custom', ...error });
  })
  .meta({ override: entrySchema });

/** Body of create cart (interface: Cart). Does not check the content of `shopify`. */
export const cartBody = z
  .object({
    cart: z
      .array(entry, { error: typed('a list') })
      .min(1, { error: 'must have at least 1 entry' })
      .max(CART_ENTRIES_MAX, { error: `must have at most ${CART_ENTRIES_MAX} entries` })
      .meta(ownBound)
      .meta({
        description:
          'Variants of the cart: their ids, or objects with `variant_id` and any other keys',
      }),
    shopify: z
      .string({ error: typed('a Base64 string') })
      .refine(isBase64, { error: 'must be a Base64 string' })
      .nullish()
      .meta({
        description:
          'Base64, padded or not, of a cart object of the platform, for example with discounts. Its content is not read',
        contentEncoding: 'base64',
      }),
  })
  .meta({ id: 'CartBody' });
export type CartBody = z.infer<typeof cartBody>;

/** A cart in responses (interface: Cart). `data` repeats the request. It has `shopify` only when the request had it. */
export const cart = z
  .object({
    token: means(z.string(), 'Identifier of the cart for a checkout, and a secret'),
    data: means(
      z.object({
        cart: means(
          z.array(z.unknown().meta({ override: entrySchema })),
          'The entries as they were sent, with all their keys',
        ),
        shopify: means(
          z.string().nullable().optional(),
          'The Base64 text as it was sent; absent when the request had none',
        ),
      }),
      'The request, unchanged',
    ),
  })
  .meta({ id: 'Cart' });
export interface CartObject {
  readonly token: string;
  readonly data: { readonly cart: readonly unknown[]; readonly shopify?: string | null };
}

interface EntryError {
  message: string;
  path?: (string | number)[];
}

function entryError(value: unknown): EntryError | undefined {
  if (numberOf(value) !== undefined) return isId(value) ? undefined : { message: ID_RULE };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { message: 'must be an integer variant id or an object with variant_id' };
  }
  const variant: unknown = Object.hasOwn(value, 'variant_id')
    ? Reflect.get(value, 'variant_id')
    : undefined;
  if (variant === undefined || variant === null) {
    return { message: 'is required', path: ['variant_id'] };
  }
  if (!isId(variant)) return { message: ID_RULE, path: ['variant_id'] };
  return contentError(value);
}

/** Checks that texts and numbers at any depth can be stored and returned unchanged. */
function contentError(root: object): EntryError | undefined {
  const unchecked: unknown[] = [root];
  while (unchecked.length > 0) {
    const value = unchecked.pop();
    const number = numberOf(value);
    if (number !== undefined) {
      if (!Number.isFinite(number)) return { message: 'must hold only numbers within range' };
      continue;
    }
    const message = typeof value === 'string' ? textError(value) : undefined;
    if (message !== undefined) return { message };
    if (typeof value !== 'object' || value === null) continue;
    for (const [key, inner] of Object.entries(value)) unchecked.push(key, inner);
  }
  return undefined;
}

function isId(value: unknown): boolean {
  const number = numberOf(value);
  return number !== undefined && isInteger(value) && Number.isSafeInteger(number) && number >= 1;
}
