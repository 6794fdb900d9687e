import { z } from 'zod';
import {
  type Label,
  LabelStatusSchema,
  OutcomeSchema,
  type Return,
  ReturnMethodSchema,
  ReturnStateSchema,
  ReturnTypeSchema,
  type Totals,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { amount, means } from '../resources/response-fields.ts';
import { textOrNull, word, zero } from '../views/values.ts';
import {
  type CurrencyType,
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../vocabulary.ts';
import { exchange, exchangeView } from './exchange.ts';
import { shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { label, labelsView } from './label.ts';
import { lineItem, lineItemView } from './line-item.ts';
import { presentment, presentmentView } from './presentment.ts';
import { providerRefund, providerRefundsView, refund, refundsView } from './refunds.ts';
import { TEXTS } from './return-details-texts.ts';

/** A return, with its totals in the requested currency. `none` is the text of zero. */
interface DetailsSource {
  readonly ret: Return;
  readonly basis: CurrencyType;
  readonly totals: Totals | undefined;
  readonly none: string;
  /** In the presentment currency, or in the shop's if the request has `shop`. */
  readonly refund: string;
  /** The top-level label fields are those of the newest label. */
  readonly newest: Label | undefined;
}

const field = viewFields<DetailsSource>();

/** Return details (interface: Return details), newest shape. Every key is always present. */
const DETAILS = {
  id: field.other(z.int(), ({ ret }) => Number(ret.id)),
  created_at: field.plainTime(({ ret }) => ret.createdAt),
  updated_at: field.plainTime(({ ret }) => ret.updatedAt),
  edited_at: field.plainTime(({ ret }) => ret.editedAt),
  order_id: field.id(({ ret }) => ret.order?.id),
  order_name: field.text(({ ret }) => ret.order?.name),
  order_number: field.id(({ ret }) => ret.order?.number),
  provider_order_number: field.id(({ ret }) => ret.order?.providerOrderNumber),
  provider_order_id: field.id(({ ret }) => ret.order?.providerOrderId),
  total: field.amount(({ totals }) => totals?.total),
  customer: field.text(({ ret }) => ret.customer?.email),
  customer_email: field.text(({ ret }) => ret.customer?.email),
  customer_first_name: field.text(({ ret }) => ret.customer?.firstName),
  customer_last_name: field.text(({ ret }) => ret.customer?.lastName),
  multi_currency: field.other(z.boolean(), ({ ret }) => ret.currency !== ret.presentmentCurrency),
  state: field.other(z.enum(RETURN_STATES).nullable(), ({ ret }) =>
    word(ReturnStateSchema, ret.state, RETURN_STATES),
  ),
  currency: field.other(z.string(), ({ ret }) => ret.currency),
  exchange: field.amount(({ totals }) => totals?.exchangeTotal),
  exchange_order_name: field.other(z.array(z.string()), ({ ret }) =>
    ret.exchangeOrders.map(({ name }) => name),
  ),
  exchange_order_id: field.other(z.array(z.int()), ({ ret }) =>
    ret.exchangeOrders.map(({ id }) => Number(id)),
  ),
  gift_card_order_name: field.text(({ ret }) => ret.giftCardOrder?.name),
  gift_card_order_id: field.id(({ ret }) => ret.giftCardOrder?.id),
  gift_card: field.amount(({ totals }) => totals?.giftCard),
  gift_card_presentment: field.other(
    z
      .object({
        value: means(amount(), 'Value of the card'),
        currency: means(z.string(), 'Currency of the card, an ISO 4217 code'),
      })
      .nullable(),
    ({ ret: { giftCardPresentment: card } }) =>
      card ? { value: card.value, currency: card.currency } : null,
  ),
  refund: field.other(amount(), (source) => source.refund),
  refunds: field.other(z.array(refund), ({ ret }) => refundsView(ret)),
  return_product_total: field.amount(({ totals }) => totals?.returnProductTotal),
  return_discount_total: field.amount(({ totals }) => totals?.returnDiscountTotal),
  return_tax_total: field.amount(({ totals }) => totals?.returnTaxTotal),
  return_total: field.amount(({ totals }) => totals?.returnTotal),
  refund_shipping_total: field.amount(({ totals }) => totals?.refundShippingTotal),
  refund_shipping_tax_total: field.amount(({ totals }) => totals?.refundShippingTaxTotal),
  return_credit_total: field.amount(({ totals }) => totals?.returnCreditTotal),
  handling_fee: field.amount(({ totals }) => totals?.handlingFee),
  exchange_product_total: field.amount(({ totals }) => totals?.exchangeProductTotal),
  exchange_discount_total: field.amount(({ totals }) => totals?.exchangeDiscountTotal),
  exchange_tax_total: field.amount(({ totals }) => totals?.exchangeTaxTotal),
  exchange_total: field.amount(({ totals }) => totals?.exchangeTotal),
  exchange_credit_total: field.amount(({ totals }) => totals?.exchangeCreditTotal),
  upsell: field.amount(({ totals }) => totals?.upsell),
  line_items: field.other(z.array(lineItem), ({ ret, basis, none }) =>
    ret.lineItems.map((line) => {
      const amounts = basis === 'shop' ? line.amounts : line.presentmentAmounts;
      return lineItemView({ line, amounts, none });
    }),
  ),
  presentment: field.other(presentment, ({ ret }) => presentmentView(ret)),
  carrier: field.text(({ newest }) => newest?.carrier),
  label_status: field.other(z.enum(LABEL_STATUSES).nullable(), ({ newest }) =>
    newest ? word(LabelStatusSchema, newest.status, LABEL_STATUSES) : null,
  ),
  label_updated_at: field.time(({ newest }) => newest?.updatedAt),
  label_url: field.text(({ newest }) => newest?.url),
  // The carrier's bill, always in the shop's currency.
  label_rate: field.text(({ newest }) => newest?.rate),
  outcome: field.other(z.enum(RETURN_OUTCOMES).nullable(), ({ ret }) =>
    word(OutcomeSchema, ret.outcome, RETURN_OUTCOMES),
  ),
  tracking_number: field.text(({ newest }) => newest?.trackingNumber),
  destination_id: field.idText(({ ret }) => ret.destinationId),
  status_page_url: field.text(({ ret }) => ret.statusPageUrl),
  return_method: field.other(z.enum(RETURN_METHODS).nullable(), ({ ret }) =>
    word(ReturnMethodSchema, ret.returnMethod, RETURN_METHODS),
  ),
  package_reference: field.text(({ ret }) => ret.packageReference),
  provider_refund_object: field.other(z.array(providerRefund), ({ ret }) =>
    providerRefundsView(ret),
  ),
  exchanges: field.other(z.array(exchange), ({ ret, basis, none }) =>
    ret.exchanges.map((one) => exchangeView({ exchange: one, basis, none })),
  ),
  type: field.other(z.enum(RETURN_TYPES).nullable(), ({ ret }) =>
    word(ReturnTypeSchema, ret.type, RETURN_TYPES),
  ),
  labels: field.other(z.array(label), ({ ret }) => labelsView(ret)),
};

export const returnDetailsFields = shapeOf(DETAILS, TEXTS);
export const returnDetails = z.object(returnDetailsFields).meta({ id: 'ReturnDetails' });
export type ReturnDetails = ViewOf<typeof DETAILS>;

/**
 * Return details in the newest form. Without `currencyType` the `refund` is in the presentment currency, and the other
 * amounts are in the shop's. With `shop` or `presentment` all amounts of the return and its line items are in that
 * currency, except amounts that name their own currency.
 */
export function returnDetailsView(ret: Return, currencyType?: CurrencyType): ReturnDetails {
  const basis = currencyType ?? 'shop';
  const totalsIn = (type: CurrencyType) => (type === 'shop' ? ret.totals : ret.presentmentTotals);
  const zeroIn = (type: CurrencyType) =>
    zero(type === 'shop' ? ret.currency : ret.presentmentCurrency);
  const refundBasis = currencyType ?? 'presentment';
  return viewOf(DETAILS, {
    ret,
    basis,
    totals: totalsIn(basis),
    none: zeroIn(basis),
    refund: textOrNull(totalsIn(refundBasis)?.refund) ?? zeroIn(refundBasis),
    newest: ret.labels.at(-1),
  });
}
