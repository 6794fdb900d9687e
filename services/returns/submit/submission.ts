import { z } from 'zod';
import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import {
  LineOutcome,
  Outcome,
  ReturnMethod,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnAmountsInput } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  ADDRESS_TEXT_MAX,
  MAX_ID,
  ORDER_NAME_MAX,
  WEBHOOK_URL_MAX,
} from '../../contract/limits.ts';
import { callerShape, id, idempotencyKey, requiredText, text, time } from '../../platform/input.ts';

/** Lines of one return. */
const MAX_LINES = 250;
const MAX_FLAG_REASONS = 20;
const NAME_MAX = 191;
const EMAIL_MAX = 320;
const URL_MAX = WEBHOOK_URL_MAX;
const MAX_QUANTITY = 1_000_000;
/** Lists longer than this are refused before anything in them is looked at. */
const MAX_EXCHANGES = 250;

/** An id that may be left out: 0 means unknown. */
export const optionalId = z
  .bigint()
  .refine((value) => value >= 0n && value <= MAX_ID, 'must be an id up to 2^53-1');
const name = text(NAME_MAX);
const amount = z.custom<Amount>().optional();
/** An empty text is as absent as none: null. */
const nullable = (max: number) =>
  text(max)
    .optional()
    .transform((value) => value || null);
const countryCode = z
  .string()
  .regex(/^([A-Za-z]{2})?$/, 'must be two letters')
  .transform((value) => value.toUpperCase());

export const quantity = z
  .int()
  .refine((value) => value >= 1 && value <= MAX_QUANTITY, `must be from 1 to ${MAX_QUANTITY}`);

/** Reasons of a flag: none that is blank. */
export const flagReasons = z
  .array(requiredText(NAME_MAX))
  .max(MAX_FLAG_REASONS, `must hold at most ${MAX_FLAG_REASONS}`);

const addressText = text(ADDRESS_TEXT_MAX);
const address = z.object({
  name: addressText,
  company: addressText,
  address1: addressText,
  address2: addressText,
  city: addressText,
  state: addressText,
  zip: addressText,
  country: addressText,
  countryCode,
  phone: addressText,
});

const line = z.object({
  providerLineItemId: id,
  providerLineItemExternalId: name,
  productId: optionalId,
  variantId: optionalId,
  sku: name,
  lineItemTitle: name,
  variantTitle: name,
  title: name,
  image: text(URL_MAX),
  quantity,
  price: amount,
  discount: amount,
  tax: amount,
  refundItem: amount,
  refundTax: amount,
  refundShipping: amount,
  refundShippingTax: amount,
  exchangeVariant: name,
  barcode: name,
  providerRestockLocationId: name,
  reason: name,
  parentReason: name,
  outcome: z.enum(LineOutcome, 'is unknown').transform((value) => value || LineOutcome.DEFAULT),
  hsCode: name,
  countryOfOrigin: countryCode,
  weightG: z.int().nonnegative('must not be negative'),
});

const exchange = z.object({
  productId: optionalId,
  variantId: optionalId,
  sku: name,
  title: name,
  price: amount,
  discount: amount,
  tax: amount,
  type: z
    .enum(['', 'product', 'variant'], 'must be product or variant')
    .transform((value) => value || 'variant'),
  outOfStock: z.boolean(),
  outOfStockResolution: nullable(NAME_MAX),
});

const lines = z
  .array(z.unknown())
  .min(1, 'must hold at least one line')
  .max(MAX_LINES, `must hold at most ${MAX_LINES} lines`)
  .pipe(z.array(line))
  .superRefine((items, context) => {
    const seen = new Set<bigint>();
    for (const [n, item] of items.entries()) {
      if (seen.has(item.providerLineItemId)) {
        context.addIssue({
          code: 'custom',
          message: 'is named twice',
          path: [n, 'providerLineItemId'],
        });
      }
      seen.add(item.providerLineItemId);
    }
  });

/** What SubmitReturn takes; sums are read once the shop's currency is known. */
export const submission = z.object({
  ...callerShape,
  idempotencyKey,
  order: z.object(
    {
      providerOrderId: id,
      name: requiredText(ORDER_NAME_MAX),
      number: optionalId,
      providerOrderNumber: optionalId,
    },
    'is required',
  ),
  currency: z.string(),
  presentmentCurrency: z.string(),
  customer: z
    .object({
      email: nullable(EMAIL_MAX),
      firstName: nullable(NAME_MAX),
      lastName: nullable(NAME_MAX),
      address: address.optional(),
    })
    .default({ email: null, firstName: null, lastName: null }),
  type: z.enum(ReturnType, 'is unknown').transform((value) => value || ReturnType.STANDARD),
  outcome: z
    .enum(Outcome, 'is unknown')
    .refine((value) => value !== Outcome.UNSPECIFIED, 'is required'),
  returnMethod: z.enum(ReturnMethod, 'is unknown').transform((value) => value || ReturnMethod.MAIL),
  destinationId: optionalId,
  exchanges: z
    .array(z.unknown())
    .max(MAX_EXCHANGES, `must hold at most ${MAX_EXCHANGES}`)
    .pipe(z.array(exchange)),
  statusPageUrl: text(URL_MAX),
  packageReference: name,
  submittedAt: time.optional(),
  lines,
  amounts: z.custom<ReturnAmountsInput>().optional(),
  flagReasons,
});

export type Submission = z.output<typeof submission>;
export type SubmittedLine = z.output<typeof line>;
export type SubmittedExchange = z.output<typeof exchange>;
