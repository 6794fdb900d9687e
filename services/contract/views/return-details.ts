import {
  LabelStatusSchema,
  OutcomeSchema,
  type Return,
  ReturnMethodSchema,
  ReturnStateSchema,
  ReturnTypeSchema,
  type Totals,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type CurrencyType,
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../limits.ts';
import type { ReturnDetails } from '../resources/return-details.ts';
import { lineItemView } from './line-item.ts';
import { exchangesView, labelsView, providerRefundsView, refundsView } from './return-parts.ts';
import { presentmentView } from './return-presentment.ts';
import { idNumber, idText, iso, known, plain, word, zero } from './values.ts';

/**
 * Return details in the newest shape (interface: Return details). Without `currencyType` the `refund`
 * is in the presentment currency and the rest in the shop's; `shop` and `presentment` put all
 * top-level and line amounts into that currency. Labels are always billed in the shop's currency, and
 * what names its own currency keeps it.
 */
export function returnDetails(ret: Return, currencyType?: CurrencyType): ReturnDetails {
  const basis = currencyType ?? 'shop';
  const none = zero(basis === 'shop' ? ret.currency : ret.presentmentCurrency);
  const email = known(ret.customer?.email);
  return {
    id: Number(ret.id),
    created_at: plain(ret.createdAt),
    updated_at: plain(ret.updatedAt),
    edited_at: plain(ret.editedAt),
    order_id: idNumber(ret.order?.id ?? 0n),
    order_name: known(ret.order?.name),
    order_number: idNumber(ret.order?.number ?? 0n),
    provider_order_number: idNumber(ret.order?.providerOrderNumber ?? 0n),
    provider_order_id: idNumber(ret.order?.providerOrderId ?? 0n),
    customer: email,
    customer_email: email,
    customer_first_name: known(ret.customer?.firstName),
    customer_last_name: known(ret.customer?.lastName),
    multi_currency: ret.currency !== ret.presentmentCurrency,
    state: word(ReturnStateSchema, ret.state, RETURN_STATES),
    currency: ret.currency,
    ...totalsView(basis === 'shop' ? ret.totals : ret.presentmentTotals, none),
    ...refundView(ret, currencyType ?? 'presentment'),
    ...providerView(ret),
    line_items: ret.lineItems.map((line) =>
      lineItemView(line, basis === 'shop' ? line.amounts : line.presentmentAmounts, none),
    ),
    presentment: presentmentView(ret),
    ...newestLabelView(ret),
    outcome: word(OutcomeSchema, ret.outcome, RETURN_OUTCOMES),
    destination_id: idText(ret.destinationId),
    status_page_url: known(ret.statusPageUrl),
    return_method: word(ReturnMethodSchema, ret.returnMethod, RETURN_METHODS),
    package_reference: known(ret.packageReference),
    exchanges: exchangesView(ret, basis, none),
    type: word(ReturnTypeSchema, ret.type, RETURN_TYPES),
    labels: labelsView(ret),
  };
}

function totalsView(totals: Totals | undefined, none: string) {
  const sum = (text: string | undefined) => known(text) ?? none;
  return {
    total: sum(totals?.total),
    exchange: sum(totals?.exchangeTotal),
    gift_card: sum(totals?.giftCard),
    return_product_total: sum(totals?.returnProductTotal),
    return_discount_total: sum(totals?.returnDiscountTotal),
    return_tax_total: sum(totals?.returnTaxTotal),
    return_total: sum(totals?.returnTotal),
    refund_shipping_total: sum(totals?.refundShippingTotal),
    refund_shipping_tax_total: sum(totals?.refundShippingTaxTotal),
    return_credit_total: sum(totals?.returnCreditTotal),
    handling_fee: sum(totals?.handlingFee),
    exchange_product_total: sum(totals?.exchangeProductTotal),
    exchange_discount_total: sum(totals?.exchangeDiscountTotal),
    exchange_tax_total: sum(totals?.exchangeTaxTotal),
    exchange_total: sum(totals?.exchangeTotal),
    exchange_credit_total: sum(totals?.exchangeCreditTotal),
    upsell: sum(totals?.upsell),
  };
}

function refundView(ret: Return, basis: CurrencyType) {
  const [totals, currency] =
    basis === 'shop'
      ? [ret.totals, ret.currency]
      : [ret.presentmentTotals, ret.presentmentCurrency];
  return { refund: known(totals?.refund) ?? zero(currency) };
}

/** What processing did at the commerce provider. */
function providerView(ret: Return) {
  const card = ret.giftCardPresentment;
  return {
    exchange_order_name: ret.exchangeOrders.map(({ name }) => name),
    exchange_order_id: ret.exchangeOrders.map(({ id }) => Number(id)),
    gift_card_order_name: known(ret.giftCardOrder?.name),
    gift_card_order_id: idNumber(ret.giftCardOrder?.id ?? 0n),
    gift_card_presentment: card ? { value: card.value, currency: card.currency } : null,
    refunds: refundsView(ret),
    provider_refund_object: providerRefundsView(ret),
  };
}

/** The top-level label fields are those of the newest label; all null without one. */
function newestLabelView(ret: Return) {
  const label = ret.labels.at(-1);
  return {
    carrier: known(label?.carrier),
    label_status: label ? word(LabelStatusSchema, label.status, LABEL_STATUSES) : null,
    label_updated_at: iso(label?.updatedAt),
    label_url: known(label?.url),
    label_rate: known(label?.rate),
    tracking_number: known(label?.trackingNumber),
  };
}
