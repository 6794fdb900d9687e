import { z } from 'zod';
import {
  PolicyUse,
  type ReturnAmountsInput,
  type Submitter,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ADDRESS_TEXT_MAX,
  EMAIL_MAX,
  FLAG_REASONS_MAX,
  SHOPPER_COMMENT_MAX,
  SHORT_TEXT_MAX,
  SUBMITTED_LINES_MAX,
} from '../../contract/limits.ts';
import {
  callerShape,
  id,
  idempotencyKey,
  requiredText,
  text,
  time,
} from '../../platform/values/input.ts';
import {
  amountsOf,
  countryCode,
  LINE_FIELDS,
  optionalId,
  quantity,
  RETURN_FIELDS,
} from '../fields.ts';
import { EXCHANGE_AMOUNTS, LINE_AMOUNTS } from '../money/totals.ts';

/** Maximum number of line items of a return. */
const MAX_LINES = SUBMITTED_LINES_MAX;
/** Maximum number of exchange items. A longer list is rejected before its items are checked. */
export const MAX_EXCHANGES = 250;

const name = text(SHORT_TEXT_MAX);
/** A text that becomes null when it is empty, because empty means absent. */
const nullable = (max: number) =>
  text(max)
    .optional()
    .transform((value) => value || null);
/** The reasons of a flag. None may be blank. */
export const flagReasons = z
  .array(requiredText(SHORT_TEXT_MAX))
  .max(FLAG_REASONS_MAX, `must hold at most ${FLAG_REASONS_MAX}`);

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
  ...LINE_FIELDS.inputs,
  ...amountsOf(LINE_AMOUNTS),
  orderedQuantity: quantity.optional(),
  comment: text(SHOPPER_COMMENT_MAX),
});

const exchange = z.object({
  productId: optionalId,
  variantId: optionalId,
  sku: name,
  title: name,
  ...amountsOf(EXCHANGE_AMOUNTS),
  type: z
    .enum(['', 'product', 'variant'], 'must be product or variant')
    .transform((value) => value || 'variant'),
  outOfStock: z.boolean(),
  outOfStockResolution: nullable(SHORT_TEXT_MAX),
});

const orderName = requiredText(SHORT_TEXT_MAX);
const boundedLines = z.array(z.unknown()).max(MAX_LINES, `must hold at most ${MAX_LINES} lines`);

/**
 * The fields that must be valid before the provider looks up the order and completes the line items of a submission.
 */
export const incompleteSubmission = z.object({
  order: z.object({ name: orderName }),
  lines: boundedLines,
});

/** The same, for a submission with `find_order`. */
export const foundSubmission = z.object({
  lines: boundedLines.min(1, 'must hold at least one line'),
  orderEmail: text(EMAIL_MAX).optional(),
});

const lines = boundedLines
  .min(1, 'must hold at least one line')
  .pipe(z.array(line))
  .superRefine((items, context) => {
    const seen = new Set<bigint>();
    for (const [n, item] of items.entries()) {
      if (seen.has(item.providerLineItemId)) {
        context.addIssue({
          code: 'custom',
          message: 'is in the request twice',
          path: [n, 'providerLineItemId'],
        });
      }
      seen.add(item.providerLineItemId);
    }
  });

/** The schema of SubmitReturn. Amounts are parsed later, because the shop's currency is needed for that. */
export const submission = z.object({
  ...callerShape,
  idempotencyKey,
  order: z.object(
    {
      providerOrderId: id,
      name: orderName,
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
      firstName: nullable(SHORT_TEXT_MAX),
      lastName: nullable(SHORT_TEXT_MAX),
      address: address.optional(),
    })
    .default({ email: null, firstName: null, lastName: null }),
  ...RETURN_FIELDS.inputs,
  exchanges: z
    .array(z.unknown())
    .max(MAX_EXCHANGES, `must hold at most ${MAX_EXCHANGES}`)
    .pipe(z.array(exchange)),
  submittedAt: time.optional(),
  lines,
  amounts: z.custom<ReturnAmountsInput>().optional(),
  ...amountsOf(['orderShipping'] as const),
  flagReasons,
  policy: z.enum(PolicyUse, 'is unknown'),
  submitter: z.custom<Submitter>().optional(),
  withdrawalId: optionalId,
});

export type Submission = z.output<typeof submission>;
export type SubmittedLine = z.output<typeof line>;
export type SubmittedExchange = z.output<typeof exchange>;
