import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Counter } from '@opentelemetry/api';
import { z } from 'zod';
import type { ReceiveShopifyWebhookRequest } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { COMMERCE_LINES_MAX } from '../../contract/limits.ts';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { MAX_ID } from '../../platform/values/ids.ts';
import { decimalText } from '../../platform/values/money.ts';
import type { ProviderOrder, ProviderRefund, RecordsReports } from '../provider.ts';
import { isSignedBody, type ShopifyAppDeps } from './app.ts';

export interface WebhookDeps extends ShopifyAppDeps, RecordsReports {
  /** Counts webhooks by topic and result. */
  readonly webhooks: Counter;
  /** Called when a redaction was queued. */
  readonly onRedaction: () => void;
}

type Result = 'handled' | 'repeated' | 'unknown topic' | 'unknown store' | 'malformed';

/** Maximum length of the id of a webhook. Shopify sends no longer ones. Characters. */
const WEBHOOK_ID_MAX = 100;

/**
 * Verifies and handles a webhook of Shopify. Returns false when Shopify did not sign the body.
 *
 * Shopify signs only the body. So the store in the header counts only when the body has the same store. Bodies about
 * orders have no store; for them the header counts. A signed body could be sent again for another store, but only
 * Shopify and this service see it.
 */
export async function receiveWebhook(
  deps: WebhookDeps,
  request: ReceiveShopifyWebhookRequest,
): Promise<boolean> {
  const { body, hmac, topic } = request;
  if (!deps.app || !isSignedBody(body, deps.app.clientSecret, hmac)) {
    deps.webhooks.add(1, { topic: 'none', result: 'not signed' });
    return false;
  }
  const result = isHandled(topic) ? await handle(deps, request) : 'unknown topic';
  deps.webhooks.add(1, { topic: isHandled(topic) ? topic : 'other', result });
  if (result === 'unknown store' || result === 'malformed') {
    deps.logger.warn({ topic, result }, 'shopify: webhook without effect');
  }
  if (result === 'handled') {
    deps.logger.info({ topic, store: request.shopDomain }, 'shopify: webhook handled');
    if (topic.endsWith('/redact')) deps.onRedaction();
  }
  return true;
}

async function handle(
  deps: WebhookDeps,
  { body, topic, shopDomain, webhookId, triggeredAt }: ReceiveShopifyWebhookRequest,
): Promise<Result> {
  const webhook = parseWebhook(topic, body);
  if (!webhook || !isOfStore(webhook, shopDomain)) return 'malformed';
  if (webhookId.length > WEBHOOK_ID_MAX) return 'malformed';
  return inTransaction(deps.pool, async (tx): Promise<Result> => {
    const shopId = await shopOf(tx, { shopDomain, topic: webhook.topic });
    if (shopId === undefined) return 'unknown store';
    const isNew = webhookId === '' || (await remember(tx, { shopDomain, topic, webhookId }));
    if (!isNew) return 'repeated';
    const at = triggeredAt ? timestampDate(triggeredAt) : null;
    await storeEffect(tx, webhook, { ...deps, shopId, at });
    return 'handled';
  });
}

function isOfStore({ body }: Webhook, shopDomain: string): boolean {
  return !('shop_domain' in body) || body.shop_domain === shopDomain;
}

/**
 * Returns the shop of a store. Locks its connection, so that a concurrent change of the connection waits.
 *
 * Only the topics that change the connection lock it exclusively. Processing locks a return first, and then the
 * connection (`for share`, see `services/returns/processing/effect-store.ts`). Topics about orders lock the connection
 * first, and then returns. With an exclusive lock both could wait for each other.
 */
async function shopOf(
  tx: Queryable,
  { shopDomain, topic }: { readonly shopDomain: string; readonly topic: Webhook['topic'] },
): Promise<bigint | undefined> {
  const isChange = topic === 'app/uninstalled' || topic === 'shop/redact';
  const lock = isChange ? 'for update' : 'for share';
  const { rows } = await tx.query<{ shopId: bigint }>(
    `select shop_id as "shopId" from commerce_connections where shop_domain = $1 ${lock}`,
    [shopDomain],
  );
  return rows[0]?.shopId;
}

/** Stores that a webhook is handled. Returns false when it was handled before. */
async function remember(
  tx: Queryable,
  o: { readonly shopDomain: string; readonly topic: string; readonly webhookId: string },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into shopify_webhooks (shop_domain, topic, webhook_id) values ($1, $2, $3)
     on conflict do nothing`,
    [o.shopDomain, o.topic, o.webhookId],
  );
  return rowCount === 1;
}

/** The shop of a webhook, and the time of its event. */
interface About {
  readonly shopId: bigint;
  /** When the event happened at Shopify; null when the webhook does not say it. */
  readonly at: Date | null;
}

/** Stores what a verified webhook changes, in the transaction that remembers the webhook. */
async function storeEffect(
  tx: Queryable,
  webhook: Webhook,
  about: About & RecordsReports,
): Promise<void> {
  switch (webhook.topic) {
    case 'app/uninstalled':
      return removeToken(tx, about);
    case 'customers/redact': {
      const { customer, orders_to_redact: orderIds } = webhook.body;
      return queueRedaction(tx, { ...about, email: customer.email ?? '', orderIds });
    }
    case 'customers/data_request':
      return recordDataRequest(tx, webhook.body, about);
    case 'shop/redact':
      return queueShopRedaction(tx, about);
    case 'orders/updated':
    case 'orders/cancelled':
      await about.recordOrder(tx, { ...webhook.body, shopId: about.shopId });
      return;
    case 'refunds/create':
      await about.recordRefund(tx, { ...webhook.body, shopId: about.shopId });
      return;
    default:
      webhook satisfies never;
  }
}

/**
 * Removes the token, because Shopify has revoked it. The connection stays, so that effects with an unknown outcome stay
 * bound to the store. With it stays the secret for the codes of gift cards: after the next install, Shopify must reject
 * a second card for a request without an answer. A token that is newer than the event also stays: the webhook arrived
 * late, after another install.
 */
async function removeToken(tx: Queryable, { shopId, at }: About): Promise<void> {
  await tx.query(
    `with removed as (
       delete from shopify_tokens where shop_id = $1 and created_at <= coalesce($2, now()) returning shop_id
     )
     update commerce_connections c set uninstalled_at = coalesce($2, now())
       from removed where c.shop_id = removed.shop_id`,
    [shopId, at],
  );
}

async function queueRedaction(
  tx: Queryable,
  o: { readonly shopId: bigint; readonly email: string; readonly orderIds: readonly bigint[] },
): Promise<void> {
  await tx.query('insert into shopify_redactions (shop_id, email, order_ids) values ($1, $2, $3)', [
    o.shopId,
    o.email,
    o.orderIds,
  ]);
}

/**
 * Queues the redaction of a shop, and deletes the last secret of its store. Shopify requests it 48 hours after the app
 * was removed. When the app was installed again in the meantime, nothing is redacted, because the shop works with its
 * data again.
 */
async function queueShopRedaction(tx: Queryable, { shopId }: About): Promise<void> {
  await tx.query(
    `with redacted as (
       update commerce_connections c set code_key_id = null, code_sealed = null
        where shop_id = $1 and not exists (select from shopify_tokens t where t.shop_id = c.shop_id)
       returning shop_id
     )
     insert into shopify_redactions (shop_id) select shop_id from redacted`,
    [shopId],
  );
}

async function recordDataRequest(
  tx: Queryable,
  body: Extract<Webhook, { topic: 'customers/data_request' }>['body'],
  { shopId }: About,
): Promise<void> {
  await tx.query(
    `insert into shopify_data_requests (shop_id, request_id, customer_id, order_ids)
     values ($1, $2, $3, $4)`,
    [shopId, body.data_request.id, body.customer.id, body.orders_requested],
  );
}

const NAME_MAX = 191;

/** An id in a body of Shopify: a number, or the text of a number. */
const id = z
  .union([z.number(), z.string().regex(/^\d{1,16}$/)])
  .transform(Number)
  .refine((value) => Number.isSafeInteger(value) && value >= 1)
  .transform(BigInt)
  .refine((value) => value <= MAX_ID);
const time = z.iso.datetime({ offset: true }).transform((text) => new Date(text));
const units = z.int().min(0).max(1_000_000);
// The units of a refund limit what can be returned, and its amount is only shown. So an event is recorded even when its
// amount has more decimals than the currency, or when its currency is unknown, as one of a newer ISO 4217 is.
const amount = z.string().regex(/^\d{1,12}(\.\d{1,20})?$/);
const currency = z.string().regex(/^[A-Z]{3}$/);
const money = z.object({ presentment_money: z.object({ amount, currency_code: currency }) });

/** @see https://shopify.dev/docs/api/admin-rest/latest/resources/order */
const orderBody = z
  .object({
    id,
    name: z.string(),
    updated_at: time,
    cancelled_at: time.nullish(),
    // `quantity` is the number of ordered units. Units that were refunded later count, too.
    line_items: z.array(z.object({ id, quantity: units })).max(COMMERCE_LINES_MAX),
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
const refundBody = z
  .object({
    id,
    order_id: id,
    created_at: time,
    note: z.string().nullish(),
    refund_line_items: z
      .array(z.object({ line_item_id: id, quantity: units, subtotal_set: money }))
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
        amount: decimalText(
          roundedMinor(one.subtotal_set.presentment_money.amount, digitsIn(code)),
          digitsIn(code),
        ),
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
    .reduce((sum, one) => sum + roundedMinor(one.amount, digitsIn(code)), 0n);
  return decimalText(minor, digitsIn(code));
}

/** The number of decimals of a currency. An unknown one has two, as most have. */
const digitsIn = (code: string): number => decimalsOf(code) ?? 2;

/** Returns a decimal text as a whole number of its last decimal, rounded half up. */
function roundedMinor(text: string, digits: number): bigint {
  const [units = '', fraction = ''] = text.split('.');
  const minor = BigInt(units + fraction.slice(0, digits).padEnd(digits, '0'));
  return (fraction[digits] ?? '0') >= '5' ? minor + 1n : minor;
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

/** Maximum number of orders in one body. */
const ORDERS_MAX = 10_000;
const EMAIL_MAX = 320;

const orders = z.array(id).max(ORDERS_MAX).default([]);
const store = { shop_domain: z.string() };

/**
 * The webhooks that this service handles. The schemas have only the fields that it reads. Each body names its store,
 * except those about orders.
 *
 * @see https://shopify.dev/docs/apps/build/compliance/privacy-law-compliance
 */
const webhook = z.discriminatedUnion('topic', [
  z.object({
    topic: z.literal('app/uninstalled'),
    body: z
      .object({ myshopify_domain: z.string() })
      .transform((body) => ({ shop_domain: body.myshopify_domain })),
  }),
  z.object({ topic: z.literal('shop/redact'), body: z.object(store) }),
  z.object({
    topic: z.literal('customers/redact'),
    body: z.object({
      ...store,
      customer: z.object({ email: z.string().max(EMAIL_MAX).nullish() }),
      orders_to_redact: orders,
    }),
  }),
  z.object({
    topic: z.literal('customers/data_request'),
    body: z.object({
      ...store,
      customer: z.object({ id }),
      orders_requested: orders,
      data_request: z.object({ id }),
    }),
  }),
  z.object({ topic: z.literal('orders/updated'), body: orderBody }),
  z.object({ topic: z.literal('orders/cancelled'), body: orderBody }),
  z.object({ topic: z.literal('refunds/create'), body: refundBody }),
]);

type Webhook = z.output<typeof webhook>;

const TOPICS: ReadonlySet<string> = new Set<Webhook['topic']>([
  'app/uninstalled',
  'shop/redact',
  'customers/redact',
  'customers/data_request',
  'orders/updated',
  'orders/cancelled',
  'refunds/create',
]);

function isHandled(topic: string): boolean {
  return TOPICS.has(topic);
}

/** Parses a webhook of a handled topic. Undefined when its body is not as documented. */
function parseWebhook(topic: string, body: Uint8Array): Webhook | undefined {
  try {
    return webhook.parse({ topic, body: JSON.parse(Buffer.from(body).toString('utf8')) });
  } catch {
    return undefined;
  }
}

const LISTED = 500;

/** Returns the customers of a shop who asked for their data, newest first, up to 500. */
export async function listDataRequests(db: Queryable, shopId: bigint) {
  const { rows } = await db.query<{
    receivedAt: Date;
    requestId: bigint;
    customerId: bigint;
    orderIds: bigint[];
  }>(
    `select received_at as "receivedAt", request_id as "requestId", customer_id as "customerId",
            order_ids as "orderIds"
       from shopify_data_requests where shop_id = $1 order by id desc limit $2`,
    [shopId, LISTED],
  );
  return rows.map(({ receivedAt, ...row }) => ({
    ...row,
    receivedAt: timestampFromDate(receivedAt),
  }));
}
