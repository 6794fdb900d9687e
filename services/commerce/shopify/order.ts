import { z } from 'zod';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { type LineValue, netOf, shareOf } from '../../platform/values/line-value.ts';
import { type Both, type Currencies, inBoth } from '../../platform/values/money.ts';
import { normalForm } from '../../platform/values/text.ts';
import { present } from '../http/order.ts';
import { CommerceFailure, type FoundLine, type FoundOrder, type OrderFacts } from '../provider.ts';
import { both, bothOwed, gidOf, minorIn, numberOf, required, textOf, timeOf } from './answers.ts';
import { AccessDenied, operation, type StoreSession } from './client.ts';

/** Maximum number of pages. Larger orders are rejected. */
const MAX_PAGES = 13;
/** Names that can be searched for. In quotes, other characters are no operators of the search. */
const NAME = /^[^"\\\p{Cc}\p{Cs}]{1,50}$/u;
/** The key of this service in the note of a refund. */
const KEY_IN_NOTE = /\((rms:[^()]+)\)/;

type Bag = z.infer<typeof both>;
type ReadOrder = NonNullable<z.infer<typeof LINES_OF_ORDER.data>['order']>;
type ReadLine = ReadOrder['lineItems']['nodes'][number];
type Payment = NonNullable<z.infer<typeof PAYMENT_OF_ORDER.data>['order']>;
type ReadRefund = NonNullable<z.infer<typeof REFUND_LINES.data>['refund']> & {
  readonly id: string;
  /** Empty for a refund that this service did not request. */
  readonly key: string;
};

/** An order that is read: what all its amounts need. */
interface Reading {
  readonly currencies: Currencies;
  readonly payment: Payment;
  readonly refunds: readonly ReadRefund[];
}

/**
 * Finds an order by its name, such as `#1001`, or by its id. Shopify shows orders of the last 60 days unless the app has
 * the scope `read_all_orders`, and the shopper's address only to an app with approval for protected customer data.
 *
 * @returns undefined when there is no such order.
 * @throws CommerceFailure `final` for an order with more than 520 lines or 20 refunds, or in an unknown currency.
 */
export async function findOrder(
  store: StoreSession,
  by: { readonly name: string } | { readonly id: bigint },
): Promise<FoundOrder | undefined> {
  const found = 'name' in by ? await byName(store, by.name) : await byId(store, by.id);
  if (!found) return undefined;
  const currencies = { shop: found.currencyCode, presentment: found.presentmentCurrencyCode };
  if (!Object.values(currencies).every((code) => decimalsOf(code) !== undefined)) {
    throw new CommerceFailure('final', 'Shopify: the order has an unknown currency');
  }
  const asked = { order: found.id };
  const payment = required((await store.run(PAYMENT_OF_ORDER, asked)).order, 'order');
  const refunds = await refundsOf(store, payment);
  const reading = { currencies, payment, refunds };
  const lines = await linesOf(store, found.id);
  return {
    id: BigInt(numberOf(found.id)),
    name: textOf(found.name),
    currencies,
    ...(await shopperOf(store, found.id)),
    ...timesOf(payment),
    shipping: shippingIn(reading),
    otherRefunds: refunds.map((refund) => ({
      id: refund.id,
      key: refund.key,
      value: otherIn(refund, reading),
    })),
    unpaid: inBoth((side) => sumOf([payment.totalOutstandingSet], side, currencies)),
    lines: lines.map((line) => lineOf(line, reading)),
  };
}

async function byName(store: StoreSession, name: string) {
  if (!NAME.test(name)) return undefined;
  const { orders } = await store.run(ORDERS_BY_NAME, { query: `name:"${name}"` });
  return orders.nodes.find((order) => normalForm(order.name) === normalForm(name));
}

async function byId(store: StoreSession, id: bigint) {
  return (await store.run(ORDER_BY_ID, { order: gidOf('Order', id) })).order ?? undefined;
}

/** The shopper's e-mail address and country. They are absent when the app may not read them. */
async function shopperOf(store: StoreSession, order: string): Promise<OrderFacts> {
  try {
    const { order: found } = await store.run(SHOPPER_OF_ORDER, { order });
    return present({
      email: found?.email || undefined,
      postalCode: found?.shippingAddress?.zip || undefined,
      shippingCountry: found?.shippingAddress?.countryCodeV2 ?? undefined,
    });
  } catch (error) {
    if (error instanceof AccessDenied) return {};
    throw error;
  }
}

const NOT_SHIPPED: ReadonlySet<string> = new Set(['CANCELLED', 'ERROR', 'FAILURE']);

/** The times of an order are those of its last fulfilment. It is delivered when all of them are. */
function timesOf(order: Payment): OrderFacts {
  const shipped = order.fulfillments.filter(({ status }) => !NOT_SHIPPED.has(status));
  const delivered = shipped.map(({ deliveredAt }) => timeOf(deliveredAt));
  return present({
    orderedAt: timeOf(order.createdAt),
    fulfilledAt: latest(shipped.map(({ createdAt }) => timeOf(createdAt))),
    deliveredAt: delivered.includes(undefined) ? undefined : latest(delivered),
    cancelledAt: timeOf(order.cancelledAt),
  });
}

function latest(times: readonly (Date | undefined)[]): Date | undefined {
  return times
    .filter((time) => time !== undefined)
    .sort((a, b) => a.getTime() - b.getTime())
    .at(-1);
}

async function refundsOf(store: StoreSession, { refunds }: Payment): Promise<ReadRefund[]> {
  if (refunds.length > MAX_REFUNDS) {
    throw new CommerceFailure('final', `Shopify: the order has more than ${MAX_REFUNDS} refunds`);
  }
  const read: ReadRefund[] = [];
  for (const { id, note } of refunds) {
    const refund = required((await store.run(REFUND_LINES, { id })).refund, 'refund');
    if (refund.refundLineItems.pageInfo.hasNextPage) {
      const why = `Shopify: a refund of the order has more than ${MAX_REFUND_LINES} lines`;
      throw new CommerceFailure('final', why);
    }
    read.push({ ...refund, id: numberOf(id), key: KEY_IN_NOTE.exec(note ?? '')?.[1] ?? '' });
  }
  return read;
}

async function linesOf(store: StoreSession, order: string): Promise<ReadLine[]> {
  const lines: ReadLine[] = [];
  let after: string | null = null;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const answer: z.infer<typeof LINES_OF_ORDER.data> = await store.run(LINES_OF_ORDER, {
      order,
      after,
    });
    const found = required(answer.order, 'order');
    lines.push(...found.lineItems.nodes);
    if (!found.lineItems.pageInfo.hasNextPage) return lines;
    after = found.lineItems.pageInfo.endCursor;
  }
  throw new CommerceFailure('final', `Shopify: the order has more than ${lines.length} lines`);
}

/** Adds up amounts in one of the currencies of the order. */
function sumOf(bags: readonly Bag[], side: keyof Both<unknown>, currencies: Currencies): bigint {
  return bags.reduce((sum, bag) => {
    const money = side === 'shop' ? bag.shopMoney : bag.presentmentMoney;
    if (money.currencyCode === currencies[side]) return sum + minorIn(money, 'final');
    throw new CommerceFailure('final', 'Shopify: an amount of the order has another currency');
  }, 0n);
}

/** Converts a line. A deleted product or variant has no id. */
function lineOf(line: ReadLine, reading: Reading): FoundLine {
  const { quantity, refundableQuantity, unfulfilledQuantity } = line;
  const isGoods = !line.isGiftCard && line.requiresShipping;
  const paid = inBoth((side) => paidIn(line, side, reading));
  const refunds = reading.refunds.flatMap((refund) => {
    const nodes = refund.refundLineItems.nodes.filter(({ lineItem }) => lineItem.id === line.id);
    const duties = dutiesIn(refund, reading, line);
    if (nodes.length + duties.length === 0) return [];
    const { id, key } = refund;
    const bags = [
      ...nodes.flatMap((node) => withTax(reading, node.subtotalSet, [node.totalTaxSet])),
      ...duties,
    ];
    const units = nodes.reduce((sum, { quantity: one }) => sum + one, 0);
    return [{ id, key, units, value: inBoth((side) => sumOf(bags, side, reading.currencies)) }];
  });
  const refunded = refunds.reduce((sum, { units }) => sum + units, 0);
  // Units that were removed from the order before they were paid for or shipped.
  const removed = Math.max(0, quantity - refundableQuantity - refunded);
  return {
    id: BigInt(numberOf(line.id)),
    title: textOf(line.title),
    sku: textOf(line.sku ?? ''),
    productId: line.product ? BigInt(numberOf(line.product.id)) : undefined,
    variantId: line.variant ? BigInt(numberOf(line.variant.id)) : undefined,
    ...present({
      variantTitle: line.variantTitle ? textOf(line.variantTitle) : undefined,
      image: line.image?.url,
      tags: line.product?.tags,
    }),
    kind: line.isGiftCard ? 'gift_card' : line.requiresShipping ? 'product' : 'service',
    shipped: Math.max(0, quantity - unfulfilledQuantity - removed),
    quantity,
    returnable: isGoods ? Math.max(0, refundableQuantity - unfulfilledQuantity) : 0,
    paid,
    left: {
      units: refundableQuantity,
      totals: inBoth((side) => {
        const gone = shareOf({ units: quantity, value: paid[side] }, removed);
        const there = refunds.reduce((sum, { value }) => sum + value[side], 0n);
        return netOf(paid[side]) - netOf(gone) - there;
      }),
    },
    refunds,
  };
}

/** Returns what was paid for a line. Duties count as tax. The price is without the tax and the duties in it. */
function paidIn(line: ReadLine, side: keyof Both<unknown>, reading: Reading): LineValue {
  const { taxesIncluded, dutiesIncluded } = reading.payment;
  const sum = (bags: readonly Bag[]) => sumOf(bags, side, reading.currencies);
  const tax = sum(line.taxLines.map(({ priceSet }) => priceSet));
  const duty = sum(line.duties.map(({ price }) => price));
  const dutyTax = sum(line.duties.flatMap((one) => one.taxLines.map(({ priceSet }) => priceSet)));
  const included = (taxesIncluded ? tax : 0n) + (dutiesIncluded ? duty : 0n);
  return {
    price: sum([line.originalTotalSet]) - included,
    discount: sum(line.discountAllocations.map(({ allocatedAmountSet }) => allocatedAmountSet)),
    tax: tax + duty + (taxesIncluded ? 0n : dutyTax),
  };
}

/** A price with its tax, unless it is in the price. */
function withTax({ payment }: Pick<Reading, 'payment'>, price: Bag, taxes: readonly Bag[]): Bag[] {
  return payment.taxesIncluded ? [price] : [price, ...taxes];
}

/** The refunded duties of a line, or of all lines. They are empty when prices include duties, as refunded lines do. */
function dutiesIn({ duties }: ReadRefund, { payment }: Reading, line?: ReadLine): Bag[] {
  if (payment.dutiesIncluded) return [];
  return (duties ?? [])
    .filter(({ originalDuty }) => !line || line.duties.some(({ id }) => id === originalDuty?.id))
    .map(({ amountSet }) => amountSet);
}

/** Shipping in a refund. */
function shippingOf(refund: ReadRefund, reading: Pick<Reading, 'payment'>): Bag[] {
  return refund.refundShippingLines.nodes.flatMap((line) =>
    withTax(reading, line.subtotalAmountSet, [line.taxAmountSet]),
  );
}

/** Returns what a refund paid beyond its lines, duties and shipping. It is at least zero. */
function otherIn(refund: ReadRefund, reading: Reading): Both<bigint> {
  const bags = [
    ...refund.refundLineItems.nodes.flatMap((line) =>
      withTax(reading, line.subtotalSet, [line.totalTaxSet]),
    ),
    ...dutiesIn(refund, reading),
    ...shippingOf(refund, reading),
  ];
  return inBoth((side) => {
    const total = sumOf([refund.totalRefundedSet], side, reading.currencies);
    const other = total - sumOf(bags, side, reading.currencies);
    return other > 0n ? other : 0n;
  });
}

function shippingIn(reading: Reading): FoundOrder['shipping'] {
  const { currencies, payment, refunds } = reading;
  const bags = payment.shippingLines.nodes.flatMap((line) =>
    withTax(
      reading,
      line.discountedPriceSet,
      line.taxLines.map(({ priceSet }) => priceSet),
    ),
  );
  const paid = inBoth((side) => sumOf(bags, side, currencies));
  const refunded = refunds.map((refund) => {
    const ofRefund = shippingOf(refund, reading);
    const value = inBoth((side) => sumOf(ofRefund, side, currencies));
    return { id: refund.id, key: refund.key, value };
  });
  const left = inBoth((side) =>
    refunded.reduce((rest, { value }) => rest - value[side], paid[side]),
  );
  return { paid, left, refunds: refunded };
}

/** Number of lines on a page. A query may cost at most 1,000 points, and a line costs 23. */
const PAGE_LINES = 40;
/** Maximum number of lines of a refund that are read, and of refunds of an order. More are rejected. */
const MAX_REFUND_LINES = 100;
const MAX_REFUNDS = 20;
/** Maximum number of shipping lines. An order has one for each delivery. */
const MAX_SHIPPING_LINES = 20;
/** Maximum number of orders in a search. Names are unique, but the search also finds similar ones. */
const MAX_ORDERS = 10;

/** Maximum number of fulfilments of which the times are read. */
const MAX_FULFILMENTS = 20;

const BAG = `{
  presentmentMoney { amount currencyCode }
  shopMoney { amount currencyCode }
}`;
const taxLines = z.array(z.object({ priceSet: both }));

const HEAD = 'id name currencyCode presentmentCurrencyCode';
const head = z.object({
  id: z.string(),
  name: z.string(),
  currencyCode: z.string(),
  presentmentCurrencyCode: z.string(),
});

export const ORDER_BY_ID = operation(
  `query OrderById($order: ID!) { order(id: $order) { ${HEAD} } }`,
  z.object({ order: head.nullable() }),
);

export const ORDERS_BY_NAME = operation(
  `
query OrdersByName($query: String!) {
  orders(first: ${MAX_ORDERS}, query: $query) {
    nodes { ${HEAD} }
  }
}`,
  z.object({ orders: z.object({ nodes: z.array(head) }) }),
);

export const PAYMENT_OF_ORDER = operation(
  `
query PaymentOfOrder($order: ID!) {
  order(id: $order) {
    createdAt
    cancelledAt
    fulfillments(first: ${MAX_FULFILMENTS}) { status createdAt deliveredAt }
    taxesIncluded
    dutiesIncluded
    totalOutstandingSet ${BAG}
    shippingLines(first: ${MAX_SHIPPING_LINES}) {
      nodes { discountedPriceSet ${BAG} taxLines { priceSet ${BAG} } }
    }
    refunds(first: ${MAX_REFUNDS + 1}) { id note }
  }
}`,
  z.object({
    order: z
      .object({
        createdAt: z.string(),
        cancelledAt: z.string().nullable(),
        fulfillments: z.array(
          z.object({
            status: z.string(),
            createdAt: z.string(),
            deliveredAt: z.string().nullable(),
          }),
        ),
        taxesIncluded: z.boolean(),
        dutiesIncluded: z.boolean(),
        totalOutstandingSet: bothOwed,
        shippingLines: z.object({
          nodes: z.array(z.object({ discountedPriceSet: both, taxLines })),
        }),
        refunds: z.array(z.object({ id: z.string(), note: z.string().nullable() })),
      })
      .nullable(),
  }),
);

export const SHOPPER_OF_ORDER = operation(
  `query ShopperOfOrder($order: ID!) { order(id: $order) { email shippingAddress { zip countryCodeV2 } } }`,
  z.object({
    order: z
      .object({
        email: z.string().nullable(),
        shippingAddress: z
          .object({ zip: z.string().nullable(), countryCodeV2: z.string().nullable() })
          .nullable(),
      })
      .nullable(),
  }),
);

export const REFUND_LINES = operation(
  `
query RefundLines($id: ID!) {
  refund(id: $id) {
    totalRefundedSet ${BAG}
    duties { amountSet ${BAG} originalDuty { id } }
    refundLineItems(first: ${MAX_REFUND_LINES}) {
      pageInfo { hasNextPage }
      nodes { quantity lineItem { id } subtotalSet ${BAG} totalTaxSet ${BAG} }
    }
    refundShippingLines(first: ${MAX_SHIPPING_LINES}) {
      nodes { subtotalAmountSet ${BAG} taxAmountSet ${BAG} }
    }
  }
}`,
  z.object({
    refund: z
      .object({
        totalRefundedSet: both,
        duties: z
          .array(
            z.object({ amountSet: both, originalDuty: z.object({ id: z.string() }).nullable() }),
          )
          .nullable(),
        refundLineItems: z.object({
          pageInfo: z.object({ hasNextPage: z.boolean() }),
          nodes: z.array(
            z.object({
              quantity: z.int().min(0),
              lineItem: z.object({ id: z.string() }),
              subtotalSet: both,
              totalTaxSet: both,
            }),
          ),
        }),
        refundShippingLines: z.object({
          nodes: z.array(z.object({ subtotalAmountSet: both, taxAmountSet: both })),
        }),
      })
      .nullable(),
  }),
);

export const LINES_OF_ORDER = operation(
  `
query LinesOfOrder($order: ID!, $after: String) {
  order(id: $order) {
    lineItems(first: ${PAGE_LINES}, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes {
        id
        title
        sku
        quantity
        refundableQuantity
        unfulfilledQuantity
        isGiftCard
        requiresShipping
        variantTitle
        image { url }
        product { id tags }
        variant { id }
        originalTotalSet ${BAG}
        discountAllocations { allocatedAmountSet ${BAG} }
        taxLines { priceSet ${BAG} }
        duties { id price ${BAG} taxLines { priceSet ${BAG} } }
      }
    }
  }
}`,
  z.object({
    order: z
      .object({
        lineItems: z.object({
          pageInfo: z.object({ hasNextPage: z.boolean(), endCursor: z.string().nullable() }),
          nodes: z.array(
            z.object({
              id: z.string(),
              title: z.string(),
              sku: z.string().nullable(),
              quantity: z.int().min(0),
              refundableQuantity: z.int().min(0),
              unfulfilledQuantity: z.int().min(0),
              isGiftCard: z.boolean(),
              requiresShipping: z.boolean(),
              variantTitle: z.string().nullable(),
              image: z.object({ url: z.string() }).nullable(),
              product: z.object({ id: z.string(), tags: z.array(z.string()) }).nullable(),
              variant: z.object({ id: z.string() }).nullable(),
              originalTotalSet: both,
              discountAllocations: z.array(z.object({ allocatedAmountSet: both })),
              taxLines,
              duties: z.array(z.object({ id: z.string(), price: both, taxLines })),
            }),
          ),
        }),
      })
      .nullable(),
  }),
);
