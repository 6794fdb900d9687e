import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import { LabelStatusSchema, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type CurrencyType, LABEL_STATUSES } from '../limits.ts';
import { parseId } from '../resources/details-query.ts';
import type { ReturnDetails } from '../resources/return-details.ts';
import { idNumber, iso, known, word, zero } from './values.ts';

/** The lists of return details: labels, exchanges and refunds. */

export function labelsView(ret: Return): ReturnDetails['labels'] {
  return ret.labels.map((label) => ({
    status: word(LabelStatusSchema, label.status, LABEL_STATUSES),
    updated_at: iso(label.updatedAt),
    url: known(label.url),
    rate: label.rate === '' ? null : Number(label.rateMinor),
    carrier: known(label.carrier),
    tracking_number: known(label.trackingNumber),
    line_items: label.lineItemIds.map(Number),
  }));
}

export function exchangesView(
  ret: Return,
  basis: CurrencyType,
  none: string,
): ReturnDetails['exchanges'] {
  const sum = (amount: Amount | undefined) => known(inBasis(amount, basis)) ?? none;
  return ret.exchanges.map((exchange) => ({
    exchange_id: Number(exchange.exchangeId),
    product_id: idNumber(exchange.productId),
    variant_id: idNumber(exchange.variantId),
    sku: known(exchange.sku),
    title: known(exchange.title),
    price: sum(exchange.price),
    discount: sum(exchange.discount),
    tax: sum(exchange.tax),
    total: sum(exchange.total),
    type: known(exchange.type),
    out_of_stock: exchange.outOfStock,
    out_of_stock_resolution: known(exchange.outOfStockResolution),
  }));
}

export function refundsView(ret: Return): ReturnDetails['refunds'] {
  return ret.refunds.map(({ gateway, provider, providerRefundId, money }) => ({
    gateway: known(gateway),
    amount: known(money?.value) ?? zero(ret.presentmentCurrency),
    currency: known(money?.currency),
    provider_refund_id: known(providerRefundId),
    provider: known(provider),
  }));
}

/** Here the provider's refund id is a number; one that is not numeric is unknown. */
export function providerRefundsView(ret: Return): ReturnDetails['provider_refund_object'] {
  return ret.refunds.map((refund) => ({
    id: Number(refund.id),
    return_id: Number(ret.id),
    provider_refund_id: idNumber(parseId(refund.providerRefundId) ?? 0n),
    provider_created_at: iso(refund.providerCreatedAt),
    created_at: iso(refund.createdAt),
    updated_at: iso(refund.updatedAt),
  }));
}

/** The presentment amount may be left out when both currencies are the same. */
function inBasis(amount: Amount | undefined, basis: CurrencyType): string | undefined {
  if (basis === 'shop') return amount?.shop;
  return amount?.presentment || amount?.shop;
}
