import type { MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import type {
  ReceiveEventRequest,
  ReceiveEventResponseSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { COMMERCE_EVENT_BYTES_MAX, COMMERCE_LINES_MAX } from '../../contract/limits.ts';
import { isSigned, signingKeyOf } from '../../platform/outbound/signature.ts';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import type { Keyring } from '../../platform/security/keyring.ts';
import { cleanText } from '../../platform/values/text.ts';
import { COMMERCE_SECRETS } from '../connections.ts';
import type { RecordsReports } from '../provider.ts';
import { currency, effectId, key, publicId, time } from './protocol.ts';

type Result = NonNullable<MessageInitShape<typeof ReceiveEventResponseSchema>['result']>;

/** Tolerated age of a signature. An older or newer one may have been recorded by somebody else. Seconds. */
const TOLERANCE_S = 300;

const UNVERIFIED: Result = { case: 'unverified', value: {} };
const ACCEPTED: Result = { case: 'accepted', value: {} };

/** The headers of Standard Webhooks. Their lengths are checked before anything is read from the database. */
const signedHeaders = z.object({
  webhookId: z.string().regex(/^[\x21-\x7e]{1,200}$/),
  webhookTimestamp: z
    .string()
    .regex(/^\d{1,12}$/)
    .transform(Number),
  webhookSignature: z.string().min(1).max(2_000),
});

/**
 * Verifies, parses and records one event of a shop's platform. The result is the same for an unknown shop, a shop
 * without a connection and a wrong signature, so that nobody learns which shops are connected. An event whose id was
 * recorded within the last week changes nothing.
 */
export async function receiveEvent(
  deps: RecordsReports & { readonly pool: pg.Pool; readonly keyring: Keyring | undefined },
  request: ReceiveEventRequest,
): Promise<Result> {
  const { pool, keyring } = deps;
  const { shopId, body } = request;
  const headers = signedHeaders.safeParse(request);
  if (!headers.success || !keyring || body.length > COMMERCE_EVENT_BYTES_MAX) return UNVERIFIED;
  const { webhookId: id, webhookTimestamp: timestamp, webhookSignature } = headers.data;
  if (Math.abs(Date.now() / 1_000 - timestamp) > TOLERANCE_S) return UNVERIFIED;
  const secrets = await COMMERCE_SECRETS.list(pool, { shopId }, keyring);
  const keys = secrets.map(({ value }) => signingKeyOf(value));
  if (!isSigned(keys, webhookSignature, { id, timestamp, body })) return UNVERIFIED;
  const parsed = parseEvent(body);
  if ('problem' in parsed) return { case: 'invalid', value: { message: parsed.problem } };
  await inTransaction(pool, async (tx) => {
    if (await isNew(tx, { shopId, id })) await record(deps, tx, { shopId, event: parsed.event });
  });
  return ACCEPTED;
}

/**
 * Stores the id of an event. Returns whether it is new. Of two concurrent requests with one id, the second waits for
 * the first.
 */
async function isNew(
  tx: Queryable,
  { shopId, id }: { readonly shopId: bigint; readonly id: string },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into inbound_events (shop_id, webhook_id) values ($1, $2)
     on conflict (shop_id, webhook_id) do nothing`,
    [shopId, id],
  );
  return rowCount === 1;
}

type Parsed = { readonly event: CommerceEvent } | { readonly problem: string };

function parseEvent(body: Uint8Array): Parsed {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return { problem: 'the body must be JSON in UTF-8' };
  }
  const result = commerceEvent.safeParse(json);
  if (!result.success) return { problem: problemOf(result.error) };
  if (result.data.type === 'order.updated' && isInFuture(result.data.data.order.updated_at)) {
    return { problem: 'data.order.updated_at: must not be in the future' };
  }
  return { event: result.data };
}

/** Returns the first broken rule, with the path of its field before it. */
function problemOf({ issues: [issue] }: z.ZodError): string {
  const path = (issue?.path ?? []).reduce<string>((before, part) => {
    if (typeof part === 'number') return `${before}[${part}]`;
    return before === '' ? String(part) : `${before}.${String(part)}`;
  }, '');
  return `${path || 'the body'}: ${issue?.message ?? 'is invalid'}`;
}

/** Whether a time is in the future. Such a time would make every later state look older. */
function isInFuture(time: string): boolean {
  return new Date(time).getTime() > Date.now() + TOLERANCE_S * 1_000;
}

async function record(
  { recordOrder, recordRefund }: RecordsReports,
  tx: Queryable,
  { shopId, event }: { readonly shopId: bigint; readonly event: CommerceEvent },
): Promise<void> {
  if (event.type === 'order.updated') {
    const { order } = event.data;
    await recordOrder(tx, {
      shopId,
      providerOrderId: BigInt(order.id),
      name: order.name,
      updatedAt: new Date(order.updated_at),
      cancelledAt: order.cancelled_at ? new Date(order.cancelled_at) : undefined,
      lines: order.lines.map(({ line_item_id, quantity }) => ({
        providerLineItemId: BigInt(line_item_id),
        quantity,
      })),
    });
    return;
  }
  const { refund } = event.data;
  await recordRefund(tx, {
    shopId,
    providerRefundId: refund.id,
    providerOrderId: BigInt(refund.order_id),
    key: refund.key ?? '',
    refundedAt: new Date(refund.created_at),
    amount: refund.amount,
    currency: refund.currency,
    lines: refund.lines.map(({ line_item_id, quantity, amount }) => ({
      providerLineItemId: BigInt(line_item_id),
      quantity,
      amount,
    })),
  });
}

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
const commerceEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('order.updated'), data: EVENT_DATA['order.updated'] }),
  z.object({ type: z.literal('refund.created'), data: EVENT_DATA['refund.created'] }),
]);
export type CommerceEvent = z.output<typeof commerceEvent>;
