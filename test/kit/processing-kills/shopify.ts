import { setTimeout as sleep } from 'node:timers/promises';
import type { LedgerEntry } from '../../../services/commerce/embedded.ts';
import type { CommerceProvider, EffectRequest } from '../../../services/commerce/provider.ts';
import { createShopifyCommerce } from '../../../services/commerce/shopify/adapter.ts';
import {
  createShopifyClient,
  type ShopifyClient,
} from '../../../services/commerce/shopify/client.ts';
import { formatAmount, minorOf } from '../../../services/platform/values/money.ts';
import { ACCESS, POLICY, SHOP_DOMAIN, TOKEN } from '../commerce/shopify/example-shop.ts';
import { type Fault, startShopify } from '../commerce/shopify/server.ts';
import { type Made, type MadeDraft, newShopifyShop, type Shop } from '../commerce/shopify/shop.ts';
import type { Random } from '../random.ts';
import { type JudgedProvider, withPlannedFailures } from './endpoint.ts';
import { SCENARIOS } from './scenarios.ts';

/** A shop that forgets keys would restock twice: Shopify cannot find a restock. */
export const FORGETFUL_SHOPIFY_SCENARIOS = SCENARIOS.filter(
  ({ restocked }) => restocked === undefined,
);

/** The search shows what was made so much later. Milliseconds. */
const LAG_MS = 60;
/** One in three requests has one of these. A return needs several requests. */
const FAULTS: readonly Fault[] = [
  '429',
  'throttled',
  '500 before',
  '500 after',
  'lost before',
  'lost after',
  'late',
  'late answer',
  'duplicate',
];

/**
 * A Shopify shop behind a bad network, with a search that lags. It is called through the adapter `shopify`.
 *
 * @param o.forgets whether `@idempotent` has no effect. Then the network makes no duplicates.
 */
export async function startBadShopify(o: {
  readonly random: Random;
  readonly forgets: boolean;
}): Promise<JudgedProvider & { stop(): Promise<void> }> {
  const shop = newShopifyShop();
  const fault = (operation: string): Fault | undefined => {
    const picked = o.random.pick(FAULTS);
    // Shopify sends an invoice for each request that arrives.
    const isOnce = o.forgets || operation === 'SendInvoice';
    const isLeftOut = o.random.between(1, 3) > 1 || (isOnce && picked === 'duplicate');
    return isLeftOut ? undefined : picked;
  };
  const server = await startShopify({
    shop,
    token: TOKEN,
    fault,
    lagMs: LAG_MS,
    forgets: o.forgets,
  });
  const client = createShopifyClient({ policy: POLICY, origin: server.origin });
  const onTheWay = new Map<Promise<unknown>, number>();
  const shopify = createShopifyCommerce({
    client: tracked(client, onTheWay),
    shopDomain: SHOP_DOMAIN,
    access: async () => ACCESS,
    sandbox: false,
  });
  const restockKeys = new Map<bigint, string>();
  const adapter: CommerceProvider = {
    ...shopify,
    async create(request, signal) {
      if (request.kind === 'restock') restockKeys.set(request.returnId, request.key);
      const made = shopify.create(withOrder(shop, request), signal);
      // It sends several requests, one after the other, also after its process was killed.
      track(onTheWay, made);
      return made;
    },
    find: (request, signal) => shopify.find(withOrder(shop, request), signal),
  };
  return {
    ...withPlannedFailures(adapter, onTheWay),
    async ordersOf(returnId) {
      const key = `(rms:return:${returnId}:`;
      const of = (made: readonly Made[]) =>
        made.filter(({ note }) => note.includes(key)).map(entryOf);
      const drafts = shop.drafts.filter(({ order, note }) => order && note.includes(key));
      const own = drafts.flatMap(({ order }) => order ?? []);
      return {
        orders: drafts.map(orderEntryOf),
        giftCards: of(shop.giftCards),
        refunds: of(shop.refunds),
        restocks: shop.adjustments
          .filter(({ reference }) => reference.endsWith(`/Return/${returnId}`))
          .map(({ id }) => restockOf(id, restockKeys.get(returnId) ?? '')),
        cancellations: own.filter(({ cancelledAt }) => cancelledAt).map(cancellationOf),
      };
    },
    async stop() {
      await client.close();
      await server.stop();
    },
  };
}

/** Each return has an order of its own at the shop. */
function withOrder(shop: Shop, request: EffectRequest): EffectRequest {
  const { returnId: id, orderName: name, currency } = request;
  const lines = [...request.lines, ...request.stock];
  if (!shop.orders.has(id)) {
    const email = 'ada@example.com';
    const order = { id, name, currency, paid: '100000', customerId: undefined, email };
    shop.orders.set(id, { ...order, lines: [] });
  }
  const order = shop.orders.get(id);
  if (order && order.lines.length === 0 && lines.length > 0) {
    const bought = lines.map(({ providerLineItemId, sku, quantity }) => ({
      id: providerLineItemId,
      sku,
      quantity,
      price: '1',
      shopPrice: '1',
    }));
    shop.orders.set(id, { ...order, lines: bought });
  }
  return { ...request, providerOrderId: id };
}

/** Keeps a call, and when it began, until the search shows what it has made. */
function track(onTheWay: Map<Promise<unknown>, number>, call: Promise<unknown>): void {
  const shown = call
    .catch(() => {})
    .then(() => sleep(LAG_MS))
    .finally(() => onTheWay.delete(shown));
  onTheWay.set(shown, performance.now());
}

/** Keeps each request until the search shows what it has made. */
function tracked(client: ShopifyClient, onTheWay: Map<Promise<unknown>, number>): ShopifyClient {
  return {
    close: client.close,
    async run(asked) {
      // A request that has left arrives, also when its process is killed.
      const sent = client.run({ ...asked, signal: AbortSignal.timeout(5_000) });
      track(onTheWay, sent);
      return sent;
    },
  };
}

/** An adjustment of stock does not have its key. */
function restockOf(id: bigint, idempotencyKey: string): LedgerEntry {
  return {
    id,
    amount: '0',
    currency: '',
    idempotencyKey,
    calls: 1,
    due: '0',
    additionalDetails: {},
  };
}

/** An order with what the shopper was asked for, in all invoices together. */
function orderEntryOf({ order, discount = '0', invoices }: MadeDraft): LedgerEntry {
  if (!order) throw new Error('the draft is no order');
  const { amount, currency } = order;
  const goods = formatAmount(minorOf(amount, currency) + minorOf(discount, currency), currency);
  const due = order.isPending ? Number(amount) * invoices.length : 0;
  return { ...entryOf(order), amount: goods, due: String(due) };
}

/** An order is cancelled under its own id. */
function cancellationOf(order: Made): LedgerEntry {
  const entry = entryOf(order);
  const idempotencyKey = entry.idempotencyKey.replace('exchange_order', 'order_cancel');
  return { ...entry, amount: '0', idempotencyKey };
}

function entryOf({ id, note, amount, currency }: Made): LedgerEntry {
  const [, idempotencyKey = ''] = /\((rms:[^)]+)\)/.exec(note) ?? [];
  return { id, amount, currency, idempotencyKey, calls: 1, due: '0', additionalDetails: {} };
}
