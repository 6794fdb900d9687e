import { z } from 'zod';
import { decimalsOf } from '../../../platform/currencies.ts';
import { type LineValue, netOf, shareOf } from '../../../platform/line-value.ts';
import { type Both, type Currencies, inBoth, minorOf } from '../../../platform/money.ts';
import { CommerceFailure, type FoundLine, type FoundOrder } from '../provider.ts';
import { required } from './answers.ts';
import type { Operation, ShopifyClient, ShopifyShop } from './client.ts';
import { numberOf } from './ids.ts';
import { both, textOf } from './shapes.ts';

/** Number of lines on a page. A query may cost at most 1,000 points, and a line costs about 20. */
const PAGE_LINES = 50;
/** Maximum number of pages. Larger orders are rejected. */
const MAX_PAGES = 10;
/** Maximum number of lines of a refund that are read, and of refunds of an order. More are rejected. */
const MAX_REFUND_LINES = 100;
const MAX_REFUNDS = 20;
/** Maximum number of shipping lines. An order has one for each delivery. */
const MAX_SHIPPING_LINES = 20;
/** Maximum number of orders in a search. Names are unique, but the search also finds similar ones. */
const MAX_ORDERS = 10;
/** Names that can be searched for. Other characters could be operators of the search. */
const NAME = /^[\p{L}\p{N}#._ -]{1,50}$/u;
/** The key of this service in the note of a refund. */
const KEY_IN_NOTE = /\((rms:[^()]+)\)/;

const BAG = `{
  presentmentMoney { amount currencyCode }
  shopMoney { amount currencyCode }
}`;
const taxLines = z.array(z.object({ priceSet: both }));

export const ORDERS_BY_NAME = {
  name: 'OrdersByName',
  text: `
query OrdersByName($query: String!) {
  orders(first: ${MAX_ORDERS}, query: $query) {
    nodes { id name currencyCode presentmentCurrencyCode }
  }
}`,
  data: z.object({
    orders: z.object({
      nodes: z.array(
        z.object({
          id: z.string(),
          name: z.string(),
          currencyCode: z.string(),
          presentmentCurrencyCode: z.string(),
        }),
      ),
    }),
  }),
} satisfies Operation<z.ZodType>;

export const PAYMENT_OF_ORDER = {
  name: 'PaymentOfOrder',
  text: `
query PaymentOfOrder($order: ID!) {
  order(id: $order) {
    taxesIncluded
    dutiesIncluded
    shippingLines(first: ${MAX_SHIPPING_LINES}) {
      nodes { discountedPriceSet ${BAG} taxLines { priceSet ${BAG} } }
    }
    refunds(first: ${MAX_REFUNDS + 1}) { id note }
  }
}`,
  data: z.object({
    order: z
      .object({
        taxesIncluded: z.boolean(),
        dutiesIncluded: z.boolean(),
        shippingLines: z.object({
          nodes: z.array(z.object({ discountedPriceSet: both, taxLines })),
        }),
        refunds: z.array(z.object({ id: z.string(), note: z.string().nullable() })),
      })
      .nullable(),
  }),
} satisfies Operation<z.ZodType>;

export const REFUND_LINES = {
  name: 'RefundLines',
  text: `
query RefundLines($id: ID!) {
  refund(id: $id) {
    refundLineItems(first: ${MAX_REFUND_LINES}) {
      pageInfo { hasNextPage }
      nodes { quantity lineItem { id } subtotalSet ${BAG} totalTaxSet ${BAG} }
    }
    refundShippingLines(first: ${MAX_SHIPPING_LINES}) {
      nodes { subtotalAmountSet ${BAG} taxAmountSet ${BAG} }
    }
  }
}`,
  data: z.object({
    refund: z
      .object({
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
} satisfies Operation<z.ZodType>;

export const LINES_OF_ORDER = {
  name: 'LinesOfOrder',
  text: `
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
        product { id }
        variant { id }
        originalTotalSet ${BAG}
        discountAllocations { allocatedAmountSet ${BAG} }
        taxLines { priceSet ${BAG} }
        duties { price ${BAG} taxLines { priceSet ${BAG} } }
      }
    }
  }
}`,
  data: z.object({
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
              product: z.object({ id: z.string() }).nullable(),
              variant: z.object({ id: z.string() }).nullable(),
              originalTotalSet: both,
              discountAllocations: z.array(z.object({ allocatedAmountSet: both })),
              taxLines,
              duties: z.array(z.object({ price: both, taxLines })),
            }),
          ),
        }),
      })
      .nullable(),
  }),
} satisfies Operation<z.ZodType>;

type Bag = z.infer<typeof both>;
type ReadOrder = NonNullable<z.infer<typeof LINES_OF_ORDER.data>['order']>;
type ReadLine = ReadOrder['lineItems']['nodes'][number];
type Payment = NonNullable<z.infer<typeof PAYMENT_OF_ORDER.data>['order']>;
type ReadRefund = NonNullable<z.infer<typeof REFUND_LINES.data>['refund']> & {
  /** Empty for a refund that this service did not request. */
  readonly key: string;
};

/** An order that is read: what all its amounts need. */
interface Reading {
  readonly currencies: Currencies;
  readonly payment: Payment;
  readonly refunds: readonly ReadRefund[];
}

/** How to read an order. */
interface Asking {
  readonly client: ShopifyClient;
  readonly shop: ShopifyShop;
  readonly signal: AbortSignal;
  /** Global id of the order. */
  readonly order: string;
}

/**
 * Finds an order by its name, such as `#1001`. Shopify shows orders of the last 60 days unless the app has the scope
 * `read_all_orders`.
 *
 * @returns undefined when there is no such order.
 * @throws CommerceFailure `final` for an order with more than 500 lines or 20 refunds, or in an unknown currency.
 */
export async function findOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  { name, signal }: { readonly name: string; readonly signal: AbortSignal },
): Promise<FoundOrder | undefined> {
  if (!NAME.test(name)) return undefined;
  const asked = { shop, operation: ORDERS_BY_NAME, variables: { query: `name:"${name}"` }, signal };
  const { orders } = await client.run(asked);
  const found = orders.nodes.find((order) => order.name === name);
  if (!found) return undefined;
  const currencies = { shop: found.currencyCode, presentment: found.presentmentCurrencyCode };
  if (!Object.values(currencies).every((code) => decimalsOf(code) !== undefined)) {
    throw new CommerceFailure('final', 'Shopify: the order has an unknown currency');
  }
  const asking = { client, shop, signal, order: found.id };
  const payment = await paymentOf(asking);
  const refunds = await refundsOf(asking, payment);
  const reading = { currencies, payment, refunds };
  const lines = await linesOf(asking);
  return {
    id: BigInt(numberOf(found.id)),
    name: textOf(found.name),
    currencies,
    shipping: shippingIn(reading),
    lines: lines.map((line) => lineOf(line, reading)),
  };
}

async function paymentOf({ client, shop, signal, order }: Asking): Promise<Payment> {
  const asked = { shop, operation: PAYMENT_OF_ORDER, variables: { order }, signal };
  return required((await client.run(asked)).order, 'order');
}

async function refundsOf(
  { client, shop, signal }: Asking,
  { refunds }: Payment,
): Promise<ReadRefund[]> {
  if (refunds.length > MAX_REFUNDS) {
    throw new CommerceFailure('final', `Shopify: the order has more than ${MAX_REFUNDS} refunds`);
  }
  const read: ReadRefund[] = [];
  for (const { id, note } of refunds) {
    const asked = { shop, operation: REFUND_LINES, variables: { id }, signal };
    const refund = required((await client.run(asked)).refund, 'refund');
    if (refund.refundLineItems.pageInfo.hasNextPage) {
      const why = `Shopify: a refund of the order has more than ${MAX_REFUND_LINES} lines`;
      throw new CommerceFailure('final', why);
    }
    read.push({ ...refund, key: KEY_IN_NOTE.exec(note ?? '')?.[1] ?? '' });
  }
  return read;
}

async function linesOf({ client, shop, signal, order }: Asking): Promise<ReadLine[]> {
  const lines: ReadLine[] = [];
  let after: string | null = null;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const asked = { shop, operation: LINES_OF_ORDER, variables: { order, after }, signal };
    const found: ReadOrder = required((await client.run(asked)).order, 'order');
    lines.push(...found.lineItems.nodes);
    if (!found.lineItems.pageInfo.hasNextPage) return lines;
    after = found.lineItems.pageInfo.endCursor;
  }
  throw new CommerceFailure('final', `Shopify: the order has more than ${lines.length} lines`);
}

/** Adds up amounts in one of the currencies of the order. */
function sumOf(bags: readonly Bag[], side: keyof Both<unknown>, currencies: Currencies): bigint {
  return bags.reduce((sum, bag) => {
    const { amount, currencyCode } = side === 'shop' ? bag.shopMoney : bag.presentmentMoney;
    if (currencyCode === currencies[side]) return sum + minorOf(amount, currencyCode);
    throw new CommerceFailure('passing', 'Shopify: an amount of the order has another currency');
  }, 0n);
}

/** Converts a line. A deleted product or variant has no id. */
function lineOf(line: ReadLine, reading: Reading): FoundLine {
  const { quantity, refundableQuantity, unfulfilledQuantity } = line;
  const isGoods = !line.isGiftCard && line.requiresShipping;
  const paid = inBoth((side) => paidIn(line, side, reading));
  const refunds = reading.refunds.flatMap(({ key, refundLineItems }) =>
    refundLineItems.nodes
      .filter(({ lineItem }) => lineItem.id === line.id)
      .map(({ quantity: units, subtotalSet, totalTaxSet }) => {
        const bags = reading.payment.taxesIncluded ? [subtotalSet] : [subtotalSet, totalTaxSet];
        return { key, units, value: inBoth((side) => sumOf(bags, side, reading.currencies)) };
      }),
  );
  const refunded = refunds.reduce((sum, { units }) => sum + units, 0);
  // Units that were removed from the order before they were paid for or shipped.
  const removed = Math.max(0, quantity - refundableQuantity - refunded);
  return {
    id: BigInt(numberOf(line.id)),
    title: textOf(line.title),
    sku: textOf(line.sku ?? ''),
    productId: line.product ? BigInt(numberOf(line.product.id)) : undefined,
    variantId: line.variant ? BigInt(numberOf(line.variant.id)) : undefined,
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
    refunds: refunds.filter(({ key }) => key !== ''),
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

function shippingIn({ currencies, payment, refunds }: Reading): FoundOrder['shipping'] {
  const withTax = (price: Bag, taxes: readonly Bag[]) =>
    payment.taxesIncluded ? [price] : [price, ...taxes];
  const bags = payment.shippingLines.nodes.flatMap((line) =>
    withTax(
      line.discountedPriceSet,
      line.taxLines.map(({ priceSet }) => priceSet),
    ),
  );
  const refunded = refunds
    .flatMap(({ refundShippingLines }) => refundShippingLines.nodes)
    .flatMap((line) => withTax(line.subtotalAmountSet, [line.taxAmountSet]));
  const paid = inBoth((side) => sumOf(bags, side, currencies));
  return { paid, left: inBoth((side) => paid[side] - sumOf(refunded, side, currencies)) };
}
