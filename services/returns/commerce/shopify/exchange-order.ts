import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { formatAmount, minorOf, sameDecimal } from '../../../platform/money.ts';
import {
  CommerceFailure,
  type Effect,
  type EffectRequest,
  type ExchangeItem,
  type Funding,
  isDue,
} from '../provider.ts';
import { minorIn, rejectUserErrors, required } from './answers.ts';
import type { ShopifyClient, ShopifyShop } from './client.ts';
import {
  COMPLETE_DRAFT,
  CREATE_DRAFT,
  type Draft,
  FIND_DRAFTS,
  READ_DRAFT,
  RECIPIENT,
  SEND_INVOICE,
} from './draft-orders.ts';
import { gidOf, numberOf } from './ids.ts';
import { textOf, timeOf } from './shapes.ts';

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
  const draft = await findDraft(client, shop, asked);
  if (!draft?.order) return undefined;
  const effect = effectOf(draft, draft.order);
  const { funding } = asked.request;
  if (!isDue(funding)) return effect;
  return draft.invoiceSentAt === null
    ? { ...effect, isUnfinished: true }
    : { ...effect, due: funding.due };
}

/**
 * Makes an order of the exchange goods, for the shopper and the address of the original order. The order is paid, unless
 * the shopper must still pay a part: then its payment is pending, and the shopper gets the invoice. When an earlier
 * request stopped in between, continues with its draft.
 *
 * @throws CommerceFailure `final`, when the draft does not cost what it should, or the order has no e-mail address for
 *   an invoice.
 */
export async function createExchangeOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  asked: Asked,
): Promise<Effect> {
  const draft = (await findDraft(client, shop, asked)) ?? (await createDraft(client, shop, asked));
  const { funding } = asked.request;
  if (!draft.order) {
    requireTotal(draft, asked.request);
    if (!draft.ready) throw new CommerceFailure('passing', 'Shopify: the draft order is not ready');
  }
  const completed = draft.order ? draft : await complete(client, shop, { id: draft.id, asked });
  const order = required(completed.order, 'order');
  if (!isDue(funding)) return effectOf(completed, order);
  const effect = {
    ...effectOf(completed, order),
    due: order.totalOutstandingSet.presentmentMoney.amount,
  };
  if (completed.invoiceSentAt !== null) return { ...effect, due: funding.due };
  // An order that Shopify counts as paid, or that costs another amount. The caller compares the amounts.
  if (!sameDecimal(effect.due, funding.due)) return effect;
  await sendInvoice(client, shop, { id: draft.id, signal: asked.signal });
  return effect;
}

/**
 * Sends the invoice. Shopify records in the draft that it was sent, so a repeat of the request sends no other.
 *
 * @throws CommerceFailure `passing`, because the order exists.
 */
async function sendInvoice(
  client: ShopifyClient,
  shop: ShopifyShop,
  { id, signal }: { readonly id: string; readonly signal: AbortSignal },
): Promise<void> {
  const sent = await client.run({ shop, operation: SEND_INVOICE, variables: { id }, signal });
  const [error] = required(sent.draftOrderInvoiceSend, 'draftOrderInvoiceSend').userErrors;
  if (!error) return;
  const why = `the order was made, but its invoice was not sent: ${textOf(error.message)}`;
  throw new CommerceFailure('passing', `Shopify: ${why}`);
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
  if (isDue(request.funding) && !found.order.email) {
    const why = `the order has no e-mail address for the invoice of ${request.funding.due} ${request.currency}`;
    throw new CommerceFailure('final', `Shopify: ${why}`);
  }
  const variables = { input: draftInput(request, found.order) };
  const made = await client.run({ shop, operation: CREATE_DRAFT, variables, signal });
  const payload = required(made.draftOrderCreate, 'draftOrderCreate');
  rejectUserErrors(payload.userErrors);
  return required(payload.draftOrder, 'draftOrder');
}

async function complete(
  client: ShopifyClient,
  shop: ShopifyShop,
  { id, asked }: { readonly id: string; readonly asked: Asked },
): Promise<Draft> {
  const { signal, request } = asked;
  const variables = { id, pending: isDue(request.funding) };
  const done = await client.run({ shop, operation: COMPLETE_DRAFT, variables, signal });
  const payload = required(done.draftOrderComplete, 'draftOrderComplete');
  if (payload.userErrors.length > 0) {
    // An earlier request may have completed the draft.
    const read = { shop, operation: READ_DRAFT, variables: { id }, signal };
    const { draftOrder } = await client.run(read);
    if (draftOrder?.order) return draftOrder;
    rejectUserErrors(payload.userErrors);
  }
  return required(payload.draftOrder, 'draftOrder');
}

type Recipient = NonNullable<z.infer<typeof RECIPIENT.data>['order']>;

/**
 * The draft of an exchange order. The returned goods pay for the new goods. So each new item has its net price from the
 * return, tax included, and Shopify adds neither tax nor shipping. When the shopper must pay a part, the rest is a
 * discount, so that the invoice asks for this part.
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
    ...(isDue(request.funding) && { appliedDiscount: discountOf(request, request.funding) }),
    ...(email !== null && { email }),
    ...(customer && { purchasingEntity: { customerId: customer.id } }),
    ...(shippingAddress && { shippingAddress: { ...address, countryCode: countryCodeV2 } }),
    lineItems: request.items.map((item) => lineOf(item, request.currency)),
  };
}

function discountOf({ returnId, currency }: EffectRequest, { paidByReturn }: Funding) {
  return {
    title: `Paid with return ${returnId}`,
    valueType: 'FIXED_AMOUNT',
    // Shopify requires a JSON number here, and counts with the exact amount beside it.
    value: Number(paidByReturn),
    amountWithCurrency: { amount: paidByReturn, currencyCode: currency },
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

function requireTotal({ totalPriceSet }: Draft, request: EffectRequest): void {
  const { currency, funding } = request;
  const expected = isDue(funding) ? funding.due : request.amount;
  const total = totalPriceSet.presentmentMoney;
  if (total.currencyCode === currency && sameDecimal(total.amount, expected)) return;
  const cost = `${total.amount} ${total.currencyCode}`;
  const why = `the draft order costs ${cost} instead of ${expected} ${currency}, and was not completed`;
  throw new CommerceFailure('final', `Shopify: ${why}`);
}

/** The tag of a key. It is a hash, because tags have at most 40 characters, and the search reads `:` as an operator. */
function tagOf(key: string): string {
  const digest = createHash('sha256').update(key).digest('hex');
  return `rms-exchange-${digest.slice(0, 24)}`;
}

/** The amount of the effect is what the goods cost: what the shopper pays, and the discount for the returned goods. */
function effectOf({ appliedDiscount }: Draft, order: NonNullable<Draft['order']>): Effect {
  const pays = order.totalPriceSet.presentmentMoney;
  const { currencyCode: currency } = pays;
  const { amount: discount = '0' } = appliedDiscount?.amountSet.presentmentMoney ?? {};
  const goods = minorIn(pays) + minorIn({ amount: discount, currencyCode: currency });
  const amount = formatAmount(goods, currency);
  const { id, name, createdAt } = order;
  const made = { id: numberOf(id), name: textOf(name), createdAt: timeOf(createdAt) };
  return { ...made, gateway: '', provider: '', amount, currency };
}
