import type { Queryable } from '../../../platform/postgres.ts';
import { recordOrder } from '../inbound/record-order.ts';
import { recordRefund } from '../inbound/record-refund.ts';
import type { Webhook } from './webhook-bodies.ts';

/** The shop of a webhook. */
export interface About {
  readonly shopId: bigint;
  /** When the event happened at Shopify; null when it does not say. */
  readonly at: Date | null;
}

/** Stores the effect of a verified webhook, in the transaction that remembers it. */
export async function handleWebhook(tx: Queryable, webhook: Webhook, about: About): Promise<void> {
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
 * Removes the token, which Shopify has revoked. The connection stays, so that effects with an unknown outcome stay bound
 * to the store. A token that is newer than the event stays, too: the webhook came late, after another install.
 */
async function removeToken(tx: Queryable, { shopId, at }: About): Promise<void> {
  const { rowCount } = await tx.query(
    'delete from shopify_tokens where shop_id = $1 and created_at <= coalesce($2, now())',
    [shopId, at],
  );
  if (rowCount === 0) return;
  await tx.query(
    'update commerce_connections set uninstalled_at = coalesce($2, now()) where shop_id = $1',
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

/** Shopify sends it 48 hours after the app was removed. After another install, the shop works with its data again. */
async function queueShopRedaction(tx: Queryable, { shopId }: About): Promise<void> {
  await tx.query(
    `insert into shopify_redactions (shop_id)
     select $1::bigint where not exists (select from shopify_tokens where shop_id = $1::bigint)`,
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
