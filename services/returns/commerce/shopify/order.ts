import type { z } from 'zod';
import { decimalsOf } from '../../../platform/currencies.ts';
import { type LineValue, netOf, shareOf } from '../../../platform/line-value.ts';
import { type Both, type Currencies, inBoth } from '../../../platform/money.ts';
import { normalForm } from '../../../platform/text.ts';
import { CommerceFailure, type FoundLine, type FoundOrder } from '../provider.ts';
import { minorIn, required } from './answers.ts';
import type { ShopifyClient, ShopifyShop } from './client.ts';
import { numberOf } from './ids.ts';
import {
  LINES_OF_ORDER,
  MAX_REFUND_LINES,
  MAX_REFUNDS,
  ORDERS_BY_NAME,
  PAYMENT_OF_ORDER,
  REFUND_LINES,
} from './order-queries.ts';
import { type both, textOf } from './shapes.ts';

/** For checks of what the look-up reads. */
export { LINES_OF_ORDER, ORDERS_BY_NAME };

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
 * @throws CommerceFailure `final` for an order with more than 520 lines or 20 refunds, or in an unknown currency.
 */
export async function findOrder(
  client: ShopifyClient,
  shop: ShopifyShop,
  { name, signal }: { readonly name: string; readonly signal: AbortSignal },
): Promise<FoundOrder | undefined> {
  if (!NAME.test(name)) return undefined;
  const asked = { shop, operation: ORDERS_BY_NAME, variables: { query: `name:"${name}"` }, signal };
  const { orders } = await client.run(asked);
  const found = orders.nodes.find((order) => normalForm(order.name) === normalForm(name));
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
    otherRefunds: refunds.map((refund) => ({
      id: refund.id,
      key: refund.key,
      value: otherIn(refund, reading),
    })),
    unpaid: inBoth((side) => sumOf([payment.totalOutstandingSet], side, currencies)),
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
    read.push({ ...refund, id: numberOf(id), key: KEY_IN_NOTE.exec(note ?? '')?.[1] ?? '' });
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
  const refunded = refunds.flatMap((refund) => shippingOf(refund, reading));
  const paid = inBoth((side) => sumOf(bags, side, currencies));
  return { paid, left: inBoth((side) => paid[side] - sumOf(refunded, side, currencies)) };
}
