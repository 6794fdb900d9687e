import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Counter } from '@opentelemetry/api';
import type { ReceiveShopifyWebhookRequest } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { inTransaction, type Queryable } from '../../../platform/postgres.ts';
import { recordOrder } from '../inbound/record-order.ts';
import { recordRefund } from '../inbound/record-refund.ts';
import type { ShopifyAppDeps } from './app.ts';
import { isSignedBody } from './signature.ts';
import { isHandled, parseWebhook, type Webhook } from './webhook-bodies.ts';

export interface WebhookDeps extends ShopifyAppDeps {
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
  { pool }: WebhookDeps,
  { body, topic, shopDomain, webhookId, triggeredAt }: ReceiveShopifyWebhookRequest,
): Promise<Result> {
  const webhook = parseWebhook(topic, body);
  if (!webhook || !isOfStore(webhook, shopDomain)) return 'malformed';
  if (webhookId.length > WEBHOOK_ID_MAX) return 'malformed';
  return inTransaction(pool, async (tx): Promise<Result> => {
    const shopId = await shopOf(tx, { shopDomain, topic: webhook.topic });
    if (shopId === undefined) return 'unknown store';
    const isNew = webhookId === '' || (await remember(tx, { shopDomain, topic, webhookId }));
    if (!isNew) return 'repeated';
    const at = triggeredAt ? timestampDate(triggeredAt) : null;
    await storeEffect(tx, webhook, { shopId, at });
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
 * connection (`for share`, see `processing/effect-store.ts`). Topics about orders lock the connection first, and then
 * returns. With an exclusive lock both could wait for each other.
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
async function storeEffect(tx: Queryable, webhook: Webhook, about: About): Promise<void> {
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
      await recordOrder(tx, { ...webhook.body, shopId: about.shopId });
      return;
    case 'refunds/create':
      await recordRefund(tx, { ...webhook.body, shopId: about.shopId });
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
       delete from shopify_tokens where shop_id = $1 and created_at <= coalesce($2, now())
       returning code_key_id, code_sealed
     )
     update commerce_connections
        set uninstalled_at = coalesce($2, now()), code_key_id = removed.code_key_id,
            code_sealed = removed.code_sealed
       from removed where shop_id = $1`,
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
