import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { CommerceFailure, type Effect, type EffectRequest, isDue } from '../provider.ts';
import { rejectUserErrors, required } from './answers.ts';
import type { Operation, ShopifyClient, ShopifyShop } from './client.ts';
import { gidOf, numberOf } from './ids.ts';
import { timeOf, userErrors } from './shapes.ts';

/** How often the order is read again, and the pause in between, because Shopify cancels orders in the background. */
const READS = 8;
const READ_EVERY_MS = 500;

export const CANCELLED_ORDER = {
  name: 'CancelledOrder',
  text: 'query CancelledOrder($order: ID!) { order(id: $order) { id cancelledAt } }',
  data: z.object({
    order: z.object({ id: z.string(), cancelledAt: z.string().nullable() }).nullable(),
  }),
} satisfies Operation<z.ZodType>;

export const CANCEL_ORDER = {
  name: 'CancelOrder',
  text: `
mutation CancelOrder($order: ID!, $note: String, $refund: Boolean!) {
  orderCancel(
    orderId: $order
    reason: CUSTOMER
    restock: true
    notifyCustomer: false
    refundMethod: { originalPaymentMethodsRefund: $refund }
    staffNote: $note
  ) {
    orderCancelUserErrors { code field message }
  }
}`,
  data: z.object({ orderCancel: z.object({ orderCancelUserErrors: userErrors }).nullable() }),
} satisfies Operation<z.ZodType>;

interface Asked {
  readonly request: EffectRequest;
  readonly signal: AbortSignal;
}

/** Finds the cancellation of the exchange order. It needs no key, because an order is cancelled at most once. */
export async function findCancelledOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal }: Asked,
): Promise<Effect | undefined> {
  const found = await readOrder(client, shop, { request, signal });
  return found?.cancelledAt ? effectOf(found.id, found.cancelledAt, request) : undefined;
}

/**
 * Cancels the exchange order, and waits until it is cancelled. Its goods go back into stock. Nothing is refunded for
 * the returned goods. What the shopper has paid of an invoice is refunded.
 *
 * @throws CommerceFailure `final` for an order that does not exist, or that Shopify does not cancel, such as a shipped
 *   one; `passing` while the order is not cancelled yet.
 */
export async function cancelOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal }: Asked,
): Promise<Effect> {
  const known = await readOrder(client, shop, { request, signal });
  if (!known) throw new CommerceFailure('final', 'Shopify: the exchange order does not exist');
  if (known.cancelledAt) return effectOf(known.id, known.cancelledAt, request);
  const note = `Return ${request.returnId} was cancelled (${request.key})`;
  // Only an order with an invoice has a payment of the shopper.
  const variables = { order: known.id, note, refund: isDue(request.funding) };
  const { orderCancel } = await client.run({ shop, operation: CANCEL_ORDER, variables, signal });
  const errors = required(orderCancel, 'orderCancel').orderCancelUserErrors;
  for (let reads = 0; reads < READS; reads += 1) {
    if (reads > 0) await sleep(READ_EVERY_MS, undefined, { signal });
    const made = await findCancelledOrder(client, shop, { request, signal });
    if (made) return made;
    // The order is not cancelled, so the errors count. If an earlier request had cancelled it, they would not.
    rejectUserErrors(errors);
  }
  throw new CommerceFailure('passing', 'Shopify: the order is not cancelled yet');
}

async function readOrder(client: ShopifyClient, shop: ShopifyShop, { request, signal }: Asked) {
  const { orderToCancel } = request;
  if (!orderToCancel) return null;
  const variables = { order: gidOf('Order', orderToCancel.id) };
  return (await client.run({ shop, operation: CANCELLED_ORDER, variables, signal })).order;
}

function effectOf(id: string, cancelledAt: string, { currency }: EffectRequest): Effect {
  const nothing = { name: '', gateway: '', provider: '', amount: '0', currency };
  return { id: numberOf(id), ...nothing, createdAt: timeOf(cancelledAt) };
}
