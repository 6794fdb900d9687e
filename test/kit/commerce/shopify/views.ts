import { formatAmount } from '../../../../services/platform/money.ts';
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
    email: null,
    shippingAddress: null,
    createdAt: new Date().toISOString(),
    cancelledAt: null,
    currencyCode: SHOP_CURRENCY,
    presentmentCurrencyCode: currency,
    customer: customerId === undefined ? null : { id: gid('Customer', customerId) },
    lineItems({ first, after }: { first: number; after: string | null }) {
      const from = Number(after ?? 0);
      const page = lines.slice(from, from + first);
      return {
        nodes: page.map((line) => lineView(shop, order, line)),
        pageInfo: { hasNextPage: lines.length > from + first, endCursor: String(from + first) },
      };
    },
    refunds: shop.refunds.filter(({ orderId }) => orderId === id).map(refundView),
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

function lineView(shop: Shop, { currency }: ShopOrder, line: ShopLine) {
  const refundable = refundableOf(shop, line);
  return {
    id: gid('LineItem', line.id),
    title: line.sku,
    sku: line.sku,
    quantity: line.quantity,
    refundableQuantity: refundable,
    product: null,
    variant: line.stock === 'deleted' ? null : variantView(line),
    discountedUnitPriceAfterAllDiscountsSet: {
      presentmentMoney: { amount: line.price, currencyCode: currency },
      shopMoney: { amount: line.shopPrice, currencyCode: SHOP_CURRENCY },
    },
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

export function refundView({ id, note, createdAt, amount, currency, gateway, status }: MadeRefund) {
  const transaction = { gateway, status, amountSet: bag(amount, currency) };
  return {
    id: gid('Refund', id),
    note,
    createdAt: createdAt.toISOString(),
    transactions: { nodes: [{ id: gid('OrderTransaction', id), ...transaction }] },
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

export function draftView({ id, tags, amount, currency, order }: MadeDraft) {
  const totalPriceSet = bag(amount, currency);
  return {
    id: gid('DraftOrder', id),
    ready: true,
    tags,
    totalPriceSet,
    order: order
      ? {
          id: gid('Order', order.id),
          name: `#${order.id}`,
          totalPriceSet,
          createdAt: order.createdAt.toISOString(),
        }
      : null,
  };
}

/** Only what is read of an order that a draft has become. */
export function draftsOrderView({ id, cancelledAt }: DraftsOrder) {
  return { id: gid('Order', id), cancelledAt: cancelledAt?.toISOString() ?? null };
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
