import { create, fromJson, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  AddressSchema,
  type CustomerSchema,
  type ExchangeSchema,
  type Label,
  LabelSchema,
  type LineItemSchema,
  type RefundSchema,
  type Return,
  ReturnSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { netOf } from '../../platform/line-value.ts';
import {
  type Both,
  type Currencies,
  formatAmount,
  minorOf,
  type Side,
  sumsOf,
} from '../../platform/money.ts';
import { snakeCase } from '../../platform/text.ts';
import { RETURN_FIELDS } from '../fields.ts';
import {
  EXCHANGE_AMOUNTS,
  type ExchangeSums,
  type LineSums,
  RETURN_AMOUNTS,
  type ReturnSums,
  type TotalName,
  totalsOf,
} from '../money/totals.ts';
import type { ExchangeRow, LabelRow, ProviderOrderRow, RefundRow, ReturnRow } from './rows.ts';
import { labelStatusText, stateText } from './texts.ts';

/** A line item of a return: its message, and the amounts from which the totals of the return are computed. */
export interface LineOfReturn {
  readonly sums: Both<LineSums>;
  readonly message: MessageInitShape<typeof LineItemSchema>;
}

/**
 * Builds the message of a stored return, with all computed amounts in both currencies.
 *
 * @param lines the line items of the row, in order.
 */
export function toReturn(row: ReturnRow, lines: readonly LineOfReturn[]): Return {
  const currencies = { shop: row.currency, presentment: row.presentment_currency };
  const giftCard = row.provider_orders.find((order) => order.kind === 'gift_card');
  return create(ReturnSchema, {
    id: row.id,
    shopId: row.shop_id,
    revision: row.revision,
    createdAt: timestampFromDate(row.created_at),
    updatedAt: timestampFromDate(row.updated_at),
    ...(row.edited_at && { editedAt: timestampFromDate(row.edited_at) }),
    ...(row.archived_at && { archivedAt: timestampFromDate(row.archived_at) }),
    order: {
      id: row.order_id,
      providerOrderId: row.provider_order_id,
      name: row.order_name,
      number: row.order_number,
      providerOrderNumber: row.provider_order_number,
    },
    customer: customerOf(row),
    state: stateText.fromText(row.state),
    ...RETURN_FIELDS.read((column) => textOf(row[column])),
    currency: row.currency,
    presentmentCurrency: row.presentment_currency,
    totals: totalsMessage(
      row,
      '',
      lines.map(({ sums }) => sums.shop),
    ),
    presentmentTotals: totalsMessage(
      row,
      'presentment_',
      lines.map(({ sums }) => sums.presentment),
    ),
    lineItems: lines.map(({ message }) => message),
    exchanges: row.exchanges.map((exchange) => toExchange(exchange, currencies)),
    exchangeOrders: row.provider_orders
      .filter((order) => order.kind === 'exchange')
      .map((order) => ({ id: BigInt(order.provider_order_id), name: order.name })),
    ...(giftCard && giftCardOf(giftCard)),
    refunds: row.refunds.map(toRefund),
    labels: row.labels.map((label) => toLabel(label, row.currency)),
    flagReasons: [...row.flag_reasons],
    processing: row.processing,
  });
}

function textOf(value: unknown): string | null {
  return value === null ? null : String(value);
}

function customerOf(row: ReturnRow): MessageInitShape<typeof CustomerSchema> {
  return {
    ...(row.customer_email !== null && { email: row.customer_email }),
    ...(row.customer_first_name !== null && { firstName: row.customer_first_name }),
    ...(row.customer_last_name !== null && { lastName: row.customer_last_name }),
    ...(row.customer_address && {
      address: fromJson(AddressSchema, { ...row.customer_address }, { ignoreUnknownFields: true }),
    }),
  };
}

function totalsMessage(row: ReturnRow, side: Side, lines: readonly LineSums[]) {
  const currency = side === '' ? row.currency : row.presentment_currency;
  const exchanges = row.exchanges.map((exchange) => exchangeSumsOf(exchange, side, currency));
  const sums = totalsOf(lines, exchanges, returnSumsOf(row, side, currency));
  const texts: Partial<Record<TotalName, string>> = {};
  for (const [name, minor] of Object.entries(sums)) {
    // `Object.entries` loses the type of the keys.
    texts[name as TotalName] = formatAmount(minor, currency);
  }
  return texts;
}

/** The amounts of a stored exchange item in one currency, in minor units. */
function exchangeSumsOf(row: ExchangeRow, side: Side, currency: string): ExchangeSums {
  return sumsOf(EXCHANGE_AMOUNTS, (name) => minorOf(row[`${side}${name}`], currency));
}

/** The amounts of a stored return in one currency, in minor units. */
function returnSumsOf(row: ReturnRow, side: Side, currency: string): ReturnSums {
  return sumsOf(RETURN_AMOUNTS, (name) =>
    minorOf(String(row[`${side}${snakeCase(name)}`]), currency),
  );
}

/** Builds the message of one exchange item. */
function toExchange(
  row: ExchangeRow,
  currencies: Currencies,
): MessageInitShape<typeof ExchangeSchema> {
  const shop = exchangeSumsOf(row, '', currencies.shop);
  const presentment = exchangeSumsOf(row, 'presentment_', currencies.presentment);
  const amount = (pick: (sums: ExchangeSums) => bigint) => ({
    shop: formatAmount(pick(shop), currencies.shop),
    presentment: formatAmount(pick(presentment), currencies.presentment),
  });
  return {
    exchangeId: BigInt(row.id),
    productId: BigInt(row.product_id),
    variantId: BigInt(row.variant_id),
    sku: row.sku,
    title: row.title,
    price: amount((sums) => sums.price),
    discount: amount((sums) => sums.discount),
    tax: amount((sums) => sums.tax),
    total: amount(netOf),
    type: row.type,
    outOfStock: row.out_of_stock,
    ...(row.out_of_stock_resolution !== null && {
      outOfStockResolution: row.out_of_stock_resolution,
    }),
  };
}

function giftCardOf(order: ProviderOrderRow) {
  const giftCardOrder = { id: BigInt(order.provider_order_id), name: order.name };
  const { value, currency } = order;
  if (value === null || currency === null) return { giftCardOrder };
  const giftCardPresentment = { value: formatAmount(minorOf(value, currency), currency), currency };
  return { giftCardOrder, giftCardPresentment };
}

function toRefund(row: RefundRow): MessageInitShape<typeof RefundSchema> {
  const { currency } = row;
  return {
    id: BigInt(row.id),
    gateway: row.gateway,
    provider: row.provider,
    providerRefundId: row.provider_refund_id,
    money: { value: formatAmount(minorOf(row.value, currency), currency), currency },
    providerCreatedAt: timestampFromDate(new Date(row.provider_created_at)),
    createdAt: timestampFromDate(new Date(row.created_at)),
    updatedAt: timestampFromDate(new Date(row.updated_at)),
  };
}

/** Builds the message of one label. `currency` is that of the shop. */
export function toLabel(row: LabelRow, currency: string): Label {
  const rate = row.rate === null ? undefined : minorOf(row.rate, currency);
  return create(LabelSchema, {
    id: BigInt(row.id),
    returnId: BigInt(row.return_id),
    carrier: row.carrier,
    trackingNumber: row.tracking_number,
    url: row.url,
    rate: rate === undefined ? '' : formatAmount(rate, currency),
    rateMinor: rate ?? 0n,
    status: labelStatusText.fromText(row.status),
    createdAt: timestampFromDate(new Date(row.created_at)),
    updatedAt: timestampFromDate(new Date(row.updated_at)),
    lineItemIds: row.line_item_ids.map(BigInt),
  });
}
