import { GraphQLError } from 'graphql';
import {
  type Both,
  formatAmount,
  inBoth,
  minorOf,
} from '../../../../services/platform/values/money.ts';
import {
  type Adjustment,
  type DraftsOrder,
  GATEWAY,
  leftOf,
  type MadeDraft,
  type MadeGiftCard,
  type MadeRefund,
  refundableOf,
  SHOP_CURRENCY,
  type Shop,
  type ShopLine,
  type ShopOrder,
} from './shop.ts';

// What exists in a shop, in the shapes of the schema.

/** An order as the schema has it; null when there is none. */
export function orderView(shop: Shop, order: ShopOrder | undefined) {
  if (!order) return null;
  const { id, name, currency, customerId, lines } = order;
  const left = leftOf(shop, order);
  return {
    id: gid('Order', id),
    name,
    email() {
      if (!order.isProtected) return order.email ?? null;
      const extensions = { code: 'ACCESS_DENIED' };
      throw new GraphQLError('This app is not approved to access the Order object', { extensions });
    },
    shippingAddress: order.shippedTo ?? null,
    createdAt: (order.createdAt ?? new Date()).toISOString(),
    cancelledAt: order.cancelledAt?.toISOString() ?? null,
    fulfillments: (order.fulfilments ?? []).map((one) => ({
      status: one.status ?? 'SUCCESS',
      createdAt: one.createdAt.toISOString(),
      deliveredAt: one.deliveredAt?.toISOString() ?? null,
    })),
    currencyCode: SHOP_CURRENCY,
    presentmentCurrencyCode: currency,
    customer: customerId === undefined ? null : { id: gid('Customer', customerId) },
    taxesIncluded: order.taxesIncluded ?? false,
    dutiesIncluded: order.dutiesIncluded ?? false,
    totalOutstandingSet: bags(order.outstanding ?? { shop: '0', presentment: '0' }, currency),
    shippingLines: {
      nodes: order.shipping
        ? [
            {
              discountedPriceSet: bags(order.shipping.price, currency),
              taxLines: [{ priceSet: bags(order.shipping.tax, currency) }],
            },
          ]
        : [],
    },
    lineItems({ first, after }: { first: number; after: string | null }) {
      const from = Number(after ?? 0);
      const page = lines.slice(from, from + first);
      return {
        nodes: page.map((line) => lineView(shop, order, line)),
        pageInfo: { hasNextPage: lines.length > from + first, endCursor: String(from + first) },
      };
    },
    refunds: shop.refunds
      .filter(({ orderId }) => orderId === id)
      .map((made) => refundView(shop, made)),
    suggestedRefund: {
      suggestedTransactions: [
        {
          gateway: GATEWAY,
          parentTransaction: { id: gid('OrderTransaction', id) },
          maximumRefundableSet: bag(formatAmount(left, currency), currency),
        },
      ],
    },
  };
}

function lineView(shop: Shop, order: ShopOrder, line: ShopLine) {
  const { currency } = order;
  const refundable = refundableOf(shop, line);
  const duties = line.duties ?? [];
  return {
    id: gid('LineItem', line.id),
    title: line.sku,
    sku: line.sku,
    quantity: line.quantity,
    refundableQuantity: refundable,
    unfulfilledQuantity: Math.min(refundable, line.unfulfilled ?? 0),
    isGiftCard: line.kind === 'gift card',
    requiresShipping: line.kind === undefined,
    variantTitle: line.variantTitle ?? null,
    image: line.image === undefined ? null : { url: line.image },
    product: line.product ? { id: gid('Product', line.product.id), tags: line.product.tags } : null,
    variant: line.stock === 'deleted' ? null : variantView(line),
    originalTotalSet: bags(amountsOf(order, line).gross, currency),
    discountAllocations: (line.discounts ?? []).map((discount) => ({
      allocatedAmountSet: bags(discount, currency),
    })),
    taxLines: taxesOf(order, line).map((tax) => ({ priceSet: bags(tax, currency) })),
    duties: duties.map((duty) => ({
      id: gid('Duty', line.id),
      price: bags(duty, currency),
      taxLines: [],
    })),
  };
}

/** The taxes of a line. Unless an order states taxes, what was paid beyond its prices is the tax of its first line. */
function taxesOf(order: ShopOrder, line: ShopLine): readonly Both<string>[] {
  const { lines, currency, paid } = order;
  if (line.taxes || line !== lines[0] || currency !== SHOP_CURRENCY) return line.taxes ?? [];
  const rest = lines.reduce(
    (left, { price, quantity }) => left - minorOf(price, currency) * BigInt(quantity),
    minorOf(paid, currency),
  );
  const tax = formatAmount(rest > 0n ? rest : 0n, currency);
  return [{ shop: tax, presentment: tax }];
}

/** The amounts of a line before and after discounts, and its tax. */
function amountsOf(order: ShopOrder, line: ShopLine) {
  const currencies = { shop: SHOP_CURRENCY, presentment: order.currency };
  const of = (read: (side: keyof Both<string>, currency: string) => bigint) =>
    inBoth((side) => formatAmount(read(side, currencies[side]), currencies[side]));
  const unit = { shop: line.shopPrice, presentment: line.price };
  const sum = (amounts: readonly Both<string>[] = [], side: keyof Both<string>) =>
    amounts.reduce((total, amount) => total + minorOf(amount[side], currencies[side]), 0n);
  const gross = (side: keyof Both<string>, currency: string) =>
    minorOf(unit[side], currency) * BigInt(line.quantity);
  return {
    gross: of(gross),
    net: of((side, currency) => gross(side, currency) - sum(line.discounts, side)),
    tax: of((side) => sum(taxesOf(order, line), side)),
  };
}

function variantView({ id, stock }: ShopLine) {
  const inventoryItem = { id: gid('InventoryItem', id), tracked: stock === undefined };
  return { id: gid('ProductVariant', id), inventoryItem };
}

/** What is read of an order line by its id; null when there is none. */
export function nodeView(shop: Shop, id: string) {
  const lines = [...shop.orders.values()].flatMap((order) => order.lines);
  const line = lines.find((one) => gid('LineItem', one.id) === id);
  if (!line) return null;
  const variant = line.stock === 'deleted' ? null : variantView(line);
  return { __typename: 'LineItem', id, variant };
}

export function locationView(id: bigint) {
  return { id: gid('Location', id) };
}

export function adjustmentView({ id }: Adjustment) {
  return { id: gid('InventoryAdjustmentGroup', id), createdAt: new Date().toISOString() };
}

export function refundView(shop: Shop, refund: MadeRefund) {
  const { id, note, createdAt, amount, currency, gateway, status, shipping } = refund;
  const transaction = { gateway, status, amountSet: bag(amount, currency) };
  const order = shop.orders.get(refund.orderId);
  return {
    id: gid('Refund', id),
    note,
    createdAt: createdAt.toISOString(),
    totalRefundedSet: bags({ shop: inShopCurrency(refund, order), presentment: amount }, currency),
    duties: (refund.duties ?? []).map(({ line, amount: duty }) => ({
      amountSet: bags(duty, currency),
      originalDuty: { id: gid('Duty', line), price: bags(duty, currency), taxLines: [] },
    })),
    transactions: { nodes: [{ id: gid('OrderTransaction', id), ...transaction }] },
    refundLineItems: {
      pageInfo: { hasNextPage: false },
      nodes: refund.lines.flatMap((made) => {
        const line = order?.lines.find((one) => one.id === made.id);
        return order && line ? [refundLineView(order, line, made.quantity)] : [];
      }),
    },
    refundShippingLines: {
      nodes: shipping
        ? [
            {
              subtotalAmountSet: bags(shipping.price, currency),
              taxAmountSet: bags(shipping.tax, currency),
            },
          ]
        : [],
    },
  };
}

/** Converts what was refunded with the prices of the first line. */
function inShopCurrency({ amount, currency }: MadeRefund, order: ShopOrder | undefined): string {
  const { price = '0', shopPrice = '0' } = order?.lines[0] ?? {};
  const unit = minorOf(price, currency);
  const shopUnit = minorOf(shopPrice, SHOP_CURRENCY);
  const converted = unit === 0n ? 0n : (minorOf(amount, currency) * shopUnit) / unit;
  return formatAmount(converted, SHOP_CURRENCY);
}

/** Shopify computes the amounts of refunded units from the line, and rounds them half up. */
function refundLineView(order: ShopOrder, line: ShopLine, quantity: number) {
  const { net, tax } = amountsOf(order, line);
  const share = (amounts: Both<string>) => {
    const side = (amount: string, currency: string) => {
      const [units, all] = [BigInt(quantity), BigInt(line.quantity)];
      return formatAmount((2n * minorOf(amount, currency) * units + all) / (2n * all), currency);
    };
    const presentment = side(amounts.presentment, order.currency);
    return bags({ shop: side(amounts.shop, SHOP_CURRENCY), presentment }, order.currency);
  };
  return {
    quantity,
    lineItem: { id: gid('LineItem', line.id) },
    subtotalSet: share(net),
    totalTaxSet: share(tax),
  };
}

export function giftCardView({ id, note, createdAt, amount, currency, code }: MadeGiftCard) {
  return {
    id: gid('GiftCard', id),
    note,
    createdAt: createdAt.toISOString(),
    maskedCode: `•••• ${code.slice(-4)}`,
    initialValue: { amount, currencyCode: currency },
  };
}

export function draftView({ id, tags, amount, currency, discount, invoices, order }: MadeDraft) {
  const totalPriceSet = bag(amount, currency);

  return {
    id: gid('DraftOrder', id),
    ready: true,
    tags,
    invoiceSentAt: invoices.at(-1)?.toISOString() ?? null,
    totalPriceSet,
    appliedDiscount: discount === undefined ? null : { amountSet: bag(discount, currency) },
    order: order
      ? {
          id: gid('Order', order.id),
          name: `#${order.id}`,
          totalPriceSet,
          totalOutstandingSet: bag(order.isPending ? amount : '0', currency),
          createdAt: order.createdAt.toISOString(),
        }
      : null,
  };
}

/** Only what is read of an order that a draft has become. */
export function draftsOrderView({ id, cancelledAt }: DraftsOrder) {
  return { id: gid('Order', id), cancelledAt: cancelledAt?.toISOString() ?? null };
}

function bags({ shop, presentment }: Both<string>, currencyCode: string) {
  return {
    presentmentMoney: { amount: presentment, currencyCode },
    shopMoney: { amount: shop, currencyCode: SHOP_CURRENCY },
  };
}

/** Amounts in the shop's currency are not read where this is used. */
function bag(amount: string, currencyCode: string) {
  return { presentmentMoney: { amount, currencyCode }, shopMoney: { amount, currencyCode } };
}

function gid(type: string, id: bigint): string {
  return `gid://shopify/${type}/${id}`;
}

/** The number of a global id. */
export function numberOf(id: string): bigint {
  return BigInt(id.slice(id.lastIndexOf('/') + 1));
}
