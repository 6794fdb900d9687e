import { z } from 'zod';
import { COMMERCE_LINES_MAX } from '../../../contract/limits.ts';
import { cleanText } from '../../../platform/text.ts';
import { currency, effectId, key, publicId, time } from './protocol.ts';

// Events that a merchant's platform sends to this service. docs/commerce.md and its schemas are generated from this
// file.

const shortText = (max: number) =>
  z.string().max(max).refine(cleanText, 'must hold neither NUL nor half of a surrogate pair');
const storedAmount = z
  .string()
  .regex(/^\d{1,12}(\.\d{1,4})?$/, 'must be a decimal number such as 12.50')
  .describe('Decimal number in the currency that the shopper paid in');

const lineId = publicId.describe('Your id of the order line');
const units = (meaning: string) => z.int().min(0).max(1_000_000).describe(meaning);

/** A list of lines. It has at most {@link COMMERCE_LINES_MAX} lines, and no line twice. */
function linesOf<L extends z.ZodObject<{ line_item_id: typeof lineId }>>(line: L) {
  return z
    .array(line)
    .max(COMMERCE_LINES_MAX)
    .refine(
      (lines) => new Set(lines.map((one) => one.line_item_id)).size === lines.length,
      'must hold each line_item_id once',
    );
}

const order = z.object({
  id: publicId.describe('Your id of the order'),
  name: shortText(191).describe('Its name for people, such as #1001'),
  updated_at: time.describe('When your platform changed it. An older state changes nothing'),
  cancelled_at: time.nullish().describe('When it was cancelled; null or absent when it was not'),
  lines: linesOf(
    z.object({
      line_item_id: lineId,
      quantity: units('Ordered units, also those that were refunded later'),
    }),
  ).describe('All lines of the order'),
});

const refund = z.object({
  id: effectId.describe('Your id of the refund, as in your answer to `refund.create`'),
  key: z
    .union([key, z.literal('')])
    .nullish()
    .describe('The key of our request, if one of them made it; otherwise null, or absent'),
  order_id: publicId.describe('Your id of the order'),
  created_at: time.describe('When it was made'),
  amount: storedAmount,
  currency,
  lines: linesOf(
    z.object({
      line_item_id: lineId,
      quantity: units('Refunded units; 0 for a part of the price'),
      amount: storedAmount,
    }),
  ).describe('The refunded lines. Empty for shipping, for example'),
});

/** The schema of `data` for each type of event. */
export const EVENT_DATA = {
  'order.updated': z.object({ order: order.describe('The order as it is now') }),
  'refund.created': z.object({ refund: refund.describe('The refund that was made') }),
} as const;

/** An event. */
export const commerceEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('order.updated'), data: EVENT_DATA['order.updated'] }),
  z.object({ type: z.literal('refund.created'), data: EVENT_DATA['refund.created'] }),
]);
export type CommerceEvent = z.output<typeof commerceEvent>;
