import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { formatAmount, minorOf } from '../../../platform/money.ts';
import {
  CommerceFailure,
  type Effect,
  type EffectRequest,
  type ExchangeItem,
} from '../provider.ts';
import { rejectUserErrors, required } from './answers.ts';
import type { ShopifyClient, ShopifyShop } from './client.ts';
import {
  COMPLETE_DRAFT,
  CREATE_DRAFT,
  type Draft,
  FIND_DRAFTS,
  READ_DRAFT,
  RECIPIENT,
} from './draft-orders.ts';
import { gidOf, numberOf } from './ids.ts';
import { type Money, textOf, timeOf } from './shapes.ts';

interface Asked {
  readonly request: EffectRequest;
  readonly signal: AbortSignal;
}

/**
 * Finds the exchange order of a key. Its draft has the key as a tag, and becomes an order only when it is completed.
 */
export async function findExchangeOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  asked: Asked,
): Promise<Effect | undefined> {
  const order = (await findDraft(client, shop, asked))?.order;
  return order ? effectOf(order) : undefined;
}

/**
 * Makes a paid order of the exchange goods, for the shopper and the address of the original order. When an earlier
 * request stopped between the draft and its completion, completes its draft.
 *
 * @throws CommerceFailure `final`, when the draft does not cost what the shopper has paid with the returned goods.
 */
export async function createExchangeOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  asked: Asked,
): Promise<Effect> {
  const draft = (await findDraft(client, shop, asked)) ?? (await createDraft(client, shop, asked));
  if (draft.order) return effectOf(draft.order);
  requireTotal(draft, asked.request);
  if (!draft.ready) throw new CommerceFailure('passing', 'Shopify: the draft order is not ready');
  return complete(client, shop, { id: draft.id, signal: asked.signal });
}

/**
 * Finds the draft of a key. When there are several, returns the draft that became an order, or else the oldest draft.
 * So each process completes the same draft.
 */
async function findDraft(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal }: Asked,
): Promise<Draft | undefined> {
  const tag = tagOf(request.key);
  const variables = { query: `tag:${tag}` };
  const { draftOrders } = await client.run({ shop, operation: FIND_DRAFTS, variables, signal });
  const own = draftOrders.nodes.filter(({ tags }) => tags.includes(tag));
  return own.find(({ order }) => order !== null) ?? own[0];
}

async function createDraft(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal }: Asked,
): Promise<Draft> {
  const order = gidOf('Order', request.providerOrderId);
  const found = await client.run({ shop, operation: RECIPIENT, variables: { order }, signal });
  if (!found.order) throw new CommerceFailure('final', 'Shopify: the order does not exist');
  const variables = { input: draftInput(request, found.order) };
  const made = await client.run({ shop, operation: CREATE_DRAFT, variables, signal });
  const payload = required(made.draftOrderCreate, 'draftOrderCreate');
  rejectUserErrors(payload.userErrors);
  return required(payload.draftOrder, 'draftOrder');
}

async function complete(
  client: ShopifyClient,
  shop: ShopifyShop,
  { id, signal }: { readonly id: string; readonly signal: AbortSignal },
): Promise<Effect> {
  const variables = { id };
  const done = await client.run({ shop, operation: COMPLETE_DRAFT, variables, signal });
  const payload = required(done.draftOrderComplete, 'draftOrderComplete');
  if (payload.userErrors.length > 0) {
    // An earlier request may have completed the draft.
    const { draftOrder } = await client.run({ shop, operation: READ_DRAFT, variables, signal });
    if (draftOrder?.order) return effectOf(draftOrder.order);
    rejectUserErrors(payload.userErrors);
  }
  return effectOf(required(payload.draftOrder?.order, 'order'));
}

type Recipient = NonNullable<z.infer<typeof RECIPIENT.data>['order']>;

/**
 * The draft of an exchange order. The returned goods pay for the new goods. So each new item has its net price from the
 * return, tax included, and Shopify adds neither tax nor shipping.
 */
function draftInput(request: EffectRequest, { email, customer, shippingAddress }: Recipient) {
  const { countryCodeV2, ...address } = shippingAddress ?? { countryCodeV2: null };
  return {
    tags: [tagOf(request.key)],
    note: `Exchange for return ${request.returnId} of order ${textOf(request.orderName)} (${request.key})`,
    presentmentCurrencyCode: request.currency,
    taxExempt: true,
    acceptAutomaticDiscounts: false,
    customAttributes: Object.entries(request.details).map(([key, value]) => ({
      key,
      value: String(value ?? ''),
    })),
    ...(email !== null && { email }),
    ...(customer && { purchasingEntity: { customerId: customer.id } }),
    ...(shippingAddress && { shippingAddress: { ...address, countryCode: countryCodeV2 } }),
    lineItems: request.items.map((item) => lineOf(item, request.currency)),
  };
}

function lineOf({ variantId, title, sku, ...item }: ExchangeItem, currencyCode: string) {
  const of = (text: string) => minorOf(text, currencyCode);
  const net = of(item.price) - of(item.discount) + of(item.tax);
  const price = { amount: formatAmount(net, currencyCode), currencyCode };
  return variantId > 0n
    ? { quantity: 1, variantId: gidOf('ProductVariant', variantId), priceOverride: price }
    : { quantity: 1, title, sku, originalUnitPriceWithCurrency: price };
}

function requireTotal({ totalPriceSet }: Draft, { amount, currency }: EffectRequest): void {
  const total = totalPriceSet.presentmentMoney;
  const isSame =
    total.currencyCode === currency &&
    minorOf(total.amount, currency) === minorOf(amount, currency);
  if (isSame) return;
  const cost = `${total.amount} ${total.currencyCode}`;
  const why = `the draft order costs ${cost} instead of ${amount} ${currency}, and was not completed`;
  throw new CommerceFailure('final', `Shopify: ${why}`);
}

/** The tag of a key. It is a hash, because tags have at most 40 characters, and the search reads `:` as an operator. */
function tagOf(key: string): string {
  const digest = createHash('sha256').update(key).digest('hex');
  return `rms-exchange-${digest.slice(0, 24)}`;
}

interface MadeOrder {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
  readonly totalPriceSet: { readonly presentmentMoney: Money };
}

function effectOf({ id, name, createdAt, totalPriceSet }: MadeOrder): Effect {
  const { amount, currencyCode: currency } = totalPriceSet.presentmentMoney;
  const made = { id: numberOf(id), name: textOf(name), createdAt: timeOf(createdAt) };
  return { ...made, gateway: '', provider: '', amount, currency };
}
