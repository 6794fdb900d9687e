import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { formatAmount, minorOf, sameDecimal } from '../../platform/values/money.ts';
import {
  CommerceFailure,
  type Effect,
  type EffectRequest,
  type ExchangeItem,
  type Funding,
  isDue,
} from '../provider.ts';
import {
  gidOf,
  minorIn,
  numberOf,
  presentment,
  rejectUserErrors,
  required,
  textOf,
  timeOf,
  userErrors,
} from './answers.ts';
import { operation, type StoreSession } from './client.ts';

/**
 * Finds the exchange order of a key. Its draft has the key as a tag, and becomes an order only when it is completed.
 */
export async function findExchangeOrder(
  store: StoreSession,
  request: EffectRequest,
): Promise<Effect | undefined> {
  const draft = await findDraft(store, request);
  if (!draft?.order) return undefined;
  const effect = effectOf(draft, draft.order);
  const { funding } = request;
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
  store: StoreSession,
  request: EffectRequest,
): Promise<Effect> {
  const draft = (await findDraft(store, request)) ?? (await createDraft(store, request));
  const { funding } = request;
  if (!draft.order) {
    requireTotal(draft, request);
    if (!draft.ready) throw new CommerceFailure('passing', 'Shopify: the draft order is not ready');
  }
  const completed = draft.order ? draft : await complete(store, request, draft.id);
  const order = required(completed.order, 'order');
  if (!isDue(funding)) return effectOf(completed, order);
  const effect = {
    ...effectOf(completed, order),
    due: order.totalOutstandingSet.presentmentMoney.amount,
  };
  if (completed.invoiceSentAt !== null) return { ...effect, due: funding.due };
  // An order that Shopify counts as paid, or that costs another amount. The caller compares the amounts.
  if (!sameDecimal(effect.due, funding.due)) return effect;
  await sendInvoice(store, draft.id);
  return effect;
}

/**
 * Sends the invoice. Shopify records in the draft that it was sent, so a repeat of the request sends no other.
 *
 * @throws CommerceFailure `passing`, because the order exists.
 */
async function sendInvoice(store: StoreSession, id: string): Promise<void> {
  const sent = await store.run(SEND_INVOICE, { id });
  const [error] = required(sent.draftOrderInvoiceSend, 'draftOrderInvoiceSend').userErrors;
  if (!error) return;
  const why = `the order was made, but its invoice was not sent: ${textOf(error.message)}`;
  throw new CommerceFailure('passing', `Shopify: ${why}`);
}

/**
 * Finds the draft of a key. When there are several, returns the draft that became an order, or else the oldest draft.
 * So each process completes the same draft.
 */
async function findDraft(store: StoreSession, request: EffectRequest): Promise<Draft | undefined> {
  const tag = tagOf(request.key);
  const { draftOrders } = await store.run(FIND_DRAFTS, { query: `tag:${tag}` });
  const own = draftOrders.nodes.filter(({ tags }) => tags.includes(tag));
  return own.find(({ order }) => order !== null) ?? own[0];
}

async function createDraft(store: StoreSession, request: EffectRequest): Promise<Draft> {
  const order = gidOf('Order', request.providerOrderId);
  const found = await store.run(RECIPIENT, { order });
  if (!found.order) throw new CommerceFailure('final', 'Shopify: the order does not exist');
  if (isDue(request.funding) && !found.order.email) {
    const why = `the order has no e-mail address for the invoice of ${request.funding.due} ${request.currency}`;
    throw new CommerceFailure('final', `Shopify: ${why}`);
  }
  const input = draftInput(request, found.order);
  const made = await store.run(CREATE_DRAFT, { input });
  const payload = required(made.draftOrderCreate, 'draftOrderCreate');
  rejectUserErrors(payload.userErrors);
  return required(payload.draftOrder, 'draftOrder');
}

async function complete(store: StoreSession, request: EffectRequest, id: string): Promise<Draft> {
  const asked = { id, pending: isDue(request.funding) };
  const done = await store.run(COMPLETE_DRAFT, asked);
  const payload = required(done.draftOrderComplete, 'draftOrderComplete');
  if (payload.userErrors.length > 0) {
    // An earlier request may have completed the draft.
    const { draftOrder } = await store.run(READ_DRAFT, { id });
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

/** Maximum number of drafts with one key that are read. Usually there is one. */
const MAX_DRAFTS = 20;

const DRAFT = `
fragment DraftParts on DraftOrder {
  id
  ready
  tags
  invoiceSentAt
  totalPriceSet { presentmentMoney { amount currencyCode } }
  appliedDiscount { amountSet { presentmentMoney { amount currencyCode } } }
  order {
    id
    name
    createdAt
    totalPriceSet { presentmentMoney { amount currencyCode } }
    totalOutstandingSet { presentmentMoney { amount currencyCode } }
  }
}`;

const draft = z.object({
  id: z.string(),
  ready: z.boolean(),
  tags: z.array(z.string()),
  invoiceSentAt: z.string().nullable(),
  totalPriceSet: presentment,
  appliedDiscount: z.object({ amountSet: presentment }).nullable(),
  order: z
    .object({
      id: z.string(),
      name: z.string(),
      createdAt: z.string(),
      totalPriceSet: presentment,
      totalOutstandingSet: presentment,
    })
    .nullable(),
});
type Draft = z.infer<typeof draft>;

export const FIND_DRAFTS = operation(
  `
query FindDrafts($query: String!) {
  draftOrders(first: ${MAX_DRAFTS}, sortKey: ID, query: $query) { nodes { ...DraftParts } }
}
${DRAFT}`,
  z.object({ draftOrders: z.object({ nodes: z.array(draft) }) }),
);

/** Reads one draft by its id, and not from the search index. */
export const READ_DRAFT = operation(
  `
query ReadDraft($id: ID!) {
  draftOrder(id: $id) { ...DraftParts }
}
${DRAFT}`,
  z.object({ draftOrder: draft.nullable() }),
);

export const CREATE_DRAFT = operation(
  `
mutation CreateDraft($input: DraftOrderInput!) {
  draftOrderCreate(input: $input) {
    draftOrder { ...DraftParts }
    userErrors { field message }
  }
}
${DRAFT}`,
  z.object({
    draftOrderCreate: z.object({ draftOrder: draft.nullable(), userErrors }).nullable(),
  }),
);

export const COMPLETE_DRAFT = operation(
  `
mutation CompleteDraft($id: ID!, $pending: Boolean) {
  draftOrderComplete(id: $id, paymentPending: $pending) {
    draftOrder { ...DraftParts }
    userErrors { field message }
  }
}
${DRAFT}`,
  z.object({
    draftOrderComplete: z.object({ draftOrder: draft.nullable(), userErrors }).nullable(),
  }),
);

/** Sends the shopper the invoice of a draft. The draft then has `invoiceSentAt`. */
export const SEND_INVOICE = operation(
  `
mutation SendInvoice($id: ID!) {
  draftOrderInvoiceSend(id: $id) {
    draftOrder { ...DraftParts }
    userErrors { field message }
  }
}
${DRAFT}`,
  z.object({
    draftOrderInvoiceSend: z.object({ draftOrder: draft.nullable(), userErrors }).nullable(),
  }),
);

const address = z.object({
  firstName: z.string().nullable(),
  lastName: z.string().nullable(),
  company: z.string().nullable(),
  address1: z.string().nullable(),
  address2: z.string().nullable(),
  city: z.string().nullable(),
  provinceCode: z.string().nullable(),
  countryCodeV2: z.string().nullable(),
  zip: z.string().nullable(),
  phone: z.string().nullable(),
});

export const RECIPIENT = operation(
  `
query Recipient($order: ID!) {
  order(id: $order) {
    email
    customer { id }
    shippingAddress {
      firstName lastName company address1 address2 city provinceCode countryCodeV2 zip phone
    }
  }
}`,
  z.object({
    order: z
      .object({
        email: z.string().nullable(),
        customer: z.object({ id: z.string() }).nullable(),
        shippingAddress: address.nullable(),
      })
      .nullable(),
  }),
);

/** How often the order is read again, and the pause in between, because Shopify cancels orders in the background. */
const READS = 8;
const READ_EVERY_MS = 500;

export const CANCELLED_ORDER = operation(
  'query CancelledOrder($order: ID!) { order(id: $order) { id cancelledAt } }',
  z.object({
    order: z.object({ id: z.string(), cancelledAt: z.string().nullable() }).nullable(),
  }),
);

export const CANCEL_ORDER = operation(
  `
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
  z.object({ orderCancel: z.object({ orderCancelUserErrors: userErrors }).nullable() }),
);

/** Finds the cancellation of the exchange order. It needs no key, because an order is cancelled at most once. */
export async function findCancelledOrder(
  store: StoreSession,
  request: EffectRequest,
): Promise<Effect | undefined> {
  const found = await readOrder(store, request);
  return found?.cancelledAt ? cancellationOf(found.id, found.cancelledAt, request) : undefined;
}

/**
 * Cancels the exchange order, and waits until it is cancelled. Its goods go back into stock. Nothing is refunded for
 * the returned goods. What the shopper has paid of an invoice is refunded.
 *
 * @throws CommerceFailure `final` for an order that does not exist, or that Shopify does not cancel, such as a shipped
 *   one; `passing` while the order is not cancelled yet.
 */
export async function cancelOrder(store: StoreSession, request: EffectRequest): Promise<Effect> {
  const known = await readOrder(store, request);
  if (!known) throw new CommerceFailure('final', 'Shopify: the exchange order does not exist');
  if (known.cancelledAt) return cancellationOf(known.id, known.cancelledAt, request);
  const note = `Return ${request.returnId} was cancelled (${request.key})`;
  // Only an order with an invoice has a payment of the shopper.
  const variables = { order: known.id, note, refund: isDue(request.funding) };
  const { orderCancel } = await store.run(CANCEL_ORDER, variables);
  const errors = required(orderCancel, 'orderCancel').orderCancelUserErrors;
  for (let reads = 0; reads < READS; reads += 1) {
    if (reads > 0) await sleep(READ_EVERY_MS, undefined, { signal: store.signal });
    const made = await findCancelledOrder(store, request);
    if (made) return made;
    // The order is not cancelled, so the errors count. If an earlier request had cancelled it, they would not.
    rejectUserErrors(errors);
  }
  throw new CommerceFailure('passing', 'Shopify: the order is not cancelled yet');
}

async function readOrder(store: StoreSession, request: EffectRequest) {
  const { orderToCancel } = request;
  if (!orderToCancel) return null;
  const variables = { order: gidOf('Order', orderToCancel.id) };
  return (await store.run(CANCELLED_ORDER, variables)).order;
}

function cancellationOf(id: string, cancelledAt: string, { currency }: EffectRequest): Effect {
  const nothing = { name: '', gateway: '', provider: '', amount: '0', currency };
  return { id: numberOf(id), ...nothing, createdAt: timeOf(cancelledAt) };
}
