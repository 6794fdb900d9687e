import { z } from 'zod';
import { webhookId as id, orderBody, refundBody } from './order-bodies.ts';

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

export type Webhook = z.output<typeof webhook>;

const TOPICS: ReadonlySet<string> = new Set<Webhook['topic']>([
  'app/uninstalled',
  'shop/redact',
  'customers/redact',
  'customers/data_request',
  'orders/updated',
  'orders/cancelled',
  'refunds/create',
]);

export function isHandled(topic: string): boolean {
  return TOPICS.has(topic);
}

/** Parses a webhook of a handled topic. Undefined when its body is not as documented. */
export function parseWebhook(topic: string, body: Uint8Array): Webhook | undefined {
  try {
    return webhook.parse({ topic, body: JSON.parse(Buffer.from(body).toString('utf8')) });
  } catch {
    return undefined;
  }
}
