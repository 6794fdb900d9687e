import { z } from 'zod';
import { COMMERCE_LINES_MAX } from '../../../contract/limits.ts';
import { decimalsOf } from '../../../platform/currencies.ts';
import { MAX_ID } from '../../../platform/ids.ts';
import { formatAmount, minorOf } from '../../../platform/money.ts';
import type { ProviderOrder } from '../inbound/record-order.ts';
import type { ProviderRefund } from '../inbound/record-refund.ts';

// Bodies of Shopify's webhooks about orders. The schemas have only the fields that this service reads.

const NAME_MAX = 191;

/** An id in a body of Shopify: a number, or the text of a number. */
export const webhookId = z
  .union([z.number(), z.string().regex(/^\d{1,16}$/)])
  .transform(Number)
  .refine((value) => Number.isSafeInteger(value) && value >= 1)
  .transform(BigInt)
  .refine((value) => value <= MAX_ID);
const time = z.iso.datetime({ offset: true }).transform((text) => new Date(text));
const units = z.int().min(0).max(1_000_000);
/** An amount. Shopify writes it with at most two decimals. */
const amount = z.string().regex(/^\d{1,13}(\.\d{1,4})?$/);
const currency = z.string().refine((code) => decimalsOf(code) !== undefined);
const money = z.object({ presentment_money: z.object({ amount, currency_code: currency }) });

/** @see https://shopify.dev/docs/api/admin-rest/latest/resources/order */
export const orderBody = z
  .object({
    id: webhookId,
    name: z.string(),
    updated_at: time,
    cancelled_at: time.nullish(),
    // `quantity` is the number of ordered units. Units that were refunded later count, too.
    line_items: z.array(z.object({ id: webhookId, quantity: units })).max(COMMERCE_LINES_MAX),
  })
  .transform(
    (order): Omit<ProviderOrder, 'shopId'> => ({
      providerOrderId: order.id,
      name: storable(order.name),
      updatedAt: order.updated_at,
      cancelledAt: order.cancelled_at ?? undefined,
      lines: order.line_items.map((line) => ({
        providerLineItemId: line.id,
        quantity: line.quantity,
      })),
    }),
  );

/**
 * A refund that this service requested has its key in the note. @see
 * https://shopify.dev/docs/api/admin-rest/latest/resources/refund
 */
export const refundBody = z
  .object({
    id: webhookId,
    order_id: webhookId,
    created_at: time,
    note: z.string().nullish(),
    refund_line_items: z
      .array(z.object({ line_item_id: webhookId, quantity: units, subtotal_set: money }))
      .max(COMMERCE_LINES_MAX),
    transactions: z
      .array(z.object({ kind: z.string(), status: z.string(), amount, currency }))
      .max(COMMERCE_LINES_MAX),
  })
  .transform((refund, context): Omit<ProviderRefund, 'shopId'> => {
    const { transactions, refund_line_items: lines } = refund;
    const code =
      transactions[0]?.currency ?? lines[0]?.subtotal_set.presentment_money.currency_code;
    if (code === undefined) {
      context.addIssue('has neither transactions nor lines');
      return z.NEVER;
    }
    return {
      providerRefundId: refund.id.toString(),
      providerOrderId: refund.order_id,
      key: keyIn(refund.note ?? ''),
      refundedAt: refund.created_at,
      amount: movedBy(transactions, code),
      currency: code,
      lines: lines.map((one) => ({
        providerLineItemId: one.line_item_id,
        quantity: one.quantity,
        amount: one.subtotal_set.presentment_money.amount,
      })),
    };
  });

interface Transaction {
  readonly kind: string;
  readonly status: string;
  readonly amount: string;
  readonly currency: string;
}

/**
 * Returns the sum of a refund's transactions in one currency, as a decimal text. There is one transaction for each
 * payment of the order.
 */
function movedBy(transactions: readonly Transaction[], code: string): string {
  const minor = transactions
    .filter(({ kind, status }) => kind === 'refund' && !FAILED.has(status))
    .filter(({ currency: other }) => other === code)
    .reduce((sum, one) => sum + minorOf(one.amount, code), 0n);
  return formatAmount(minor, code);
}

const FAILED: ReadonlySet<string> = new Set(['failure', 'error']);

/** Returns the key that the adapter wrote into the note of a refund; empty for other notes. */
function keyIn(note: string): string {
  return /\((rms:[\w:]{1,196})\)/.exec(note)?.[1] ?? '';
}

/** Removes characters that PostgreSQL cannot store. */
function storable(text: string): string {
  return [...text.replaceAll('\0', '').toWellFormed()].slice(0, NAME_MAX).join('');
}
