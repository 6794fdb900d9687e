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
import { parseId } from '../../platform/values/ids.ts';
import { amount, means, nullableId, nullableText, time } from '../resources/response-fields.ts';
import { idNumber, iso, textOrNull, word, zero } from '../views/values.ts';
import {
  type CurrencyType,
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../vocabulary.ts';
import { inShopUnlessSelected, shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { label, labelsView } from './label.ts';
import { exchange, exchangeView, lineItem, lineItemView } from './line-item.ts';

/** Refunds that processing made, in the two shapes of return details. */

/** The fields that both lists of refunds have. */
const refundFields = {
  gateway: means(nullableText(), 'Payment gateway of the refund; null when unknown'),
  provider: means(nullableText(), 'Commerce provider that made the refund'),
  amount: means(amount(), 'Refunded amount, in `currency`'),
  currency: means(nullableText(), 'Currency that the shopper paid in, an ISO 4217 code'),
};

const refund = z
  .object({
    gateway: refundFields.gateway,
    amount: refundFields.amount,
    currency: refundFields.currency,
    provider_refund_id: means(
      nullableText(),
      'Identifier of the refund at the commerce provider, as text',
    ),
    provider: refundFields.provider,
  })
  .meta({ id: 'Refund' });

const providerRefund = z
  .object({
    id: means(z.int(), 'Identifier of the refund in this service'),
    return_id: means(z.int(), 'The return that was refunded'),
    provider_refund_id: means(
      nullableId(),
      'Identifier of the refund at the commerce provider; null when it is not numeric',
    ),
    provider_created_at: means(time(), 'When the commerce provider made the refund'),
    created_at: means(time(), 'When the refund was recorded here'),
    updated_at: means(time(), 'When this record last changed'),
  })
  .meta({ id: 'ProviderRefund' });

function refundsView(ret: Return): z.infer<typeof refund>[] {
  return ret.refunds.map(({ gateway, provider, providerRefundId, money }) => ({
    gateway: textOrNull(gateway),
    amount: textOrNull(money?.value) ?? zero(ret.presentmentCurrency),
    currency: textOrNull(money?.currency),
    provider_refund_id: textOrNull(providerRefundId),
    provider: textOrNull(provider),
  }));
}

/** The list in which the provider's refund id is a number. An id that is not numeric counts as unknown. */
function providerRefundsView(ret: Return): z.infer<typeof providerRefund>[] {
  return ret.refunds.map((one) => ({
    id: Number(one.id),
    return_id: Number(ret.id),
    provider_refund_id: idNumber(parseId(one.providerRefundId) ?? 0n),
    provider_created_at: iso(one.providerCreatedAt),
    created_at: iso(one.createdAt),
    updated_at: iso(one.updatedAt),
  }));
}

type TotalName = Exclude<keyof Totals, `$${string}`>;

/** The stored totals in the currency in which the shopper paid (interface: Presentment object). */
interface PresentmentSource {
  readonly ret: Return;
  readonly totals: Totals | undefined;
  readonly none: string;
}

const breakdown = z.object(refundFields);
const lineAmounts = z.object({
  line_item_id: means(z.string(), 'Identifier of the line item, as text'),
  price: means(amount(), 'Gross price of the whole quantity, before discount and tax'),
  discount: means(amount(), 'Discount on the line item'),
  tax: means(amount(), 'Tax of the line item'),
});

const stored = viewFields<PresentmentSource>();
const storedTotal = (meaning: string, name: TotalName) =>
  stored.amount(meaning, ({ totals }) => totals?.[name]);
/** `refund + return_credit_total + handling_fee` is the value of the return (interface: Presentment object). */
const PRESENTMENT = {
  currency: stored.other(
    'Currency that the shopper paid in, an ISO 4217 code: that of all amounts here',
    z.string(),
    ({ ret }) => ret.presentmentCurrency,
  ),
  return_product_total: storedTotal(
    'Gross value of the line items, before discounts and taxes',
    'returnProductTotal',
  ),
  return_discount_total: storedTotal('Discounts on the line items', 'returnDiscountTotal'),
  return_tax_total: storedTotal('Taxes on the line items', 'returnTaxTotal'),
  return_total: storedTotal(
    'Net value of the line items: `return_product_total - return_discount_total + return_tax_total`',
    'returnTotal',
  ),
  return_shipping_total: storedTotal(
    'Shipping in the refund, its tax included',
    'returnShippingTotal',
  ),
  return_shipping_tax_total: storedTotal('Tax part of that shipping', 'returnShippingTaxTotal'),
  credit_shipping_total: storedTotal(
    'Shipping that the shopper gets back as credit',
    'creditShippingTotal',
  ),
  handling_fee: storedTotal('Fee that the merchant keeps', 'handlingFee'),
  return_credit_total: storedTotal(
    'Value that the shopper gets as credit instead of a refund',
    'returnCreditTotal',
  ),
  gift_card: storedTotal('Value of the gift card; zero without one', 'giftCard'),
  refund: storedTotal(
    'Refund to the payment of the order: `return_total + return_shipping_total + credit_shipping_total - return_credit_total - handling_fee`',
    'refund',
  ),
  refund_breakdown: stored.other(
    'The refunds that processing made, oldest first; empty until then',
    z.array(breakdown),
    ({ ret }) =>
      refundsView(ret).map(({ gateway, provider, amount: value, currency }) => ({
        gateway,
        provider,
        amount: value,
        currency,
      })),
  ),
  line_items: stored.other(
    'Amounts of each line item, in the order of `line_items` of the return',
    z.array(lineAmounts),
    ({ ret, none }) =>
      ret.lineItems.map(({ lineItemId, presentmentAmounts: amounts }) => ({
        line_item_id: lineItemId.toString(),
        price: textOrNull(amounts?.price) ?? none,
        discount: textOrNull(amounts?.discount) ?? none,
        tax: textOrNull(amounts?.tax) ?? none,
      })),
  ),
};

const presentment = z.object(shapeOf(PRESENTMENT)).meta({ id: 'Presentment' });

function presentmentView(ret: Return): ViewOf<typeof PRESENTMENT> {
  const none = zero(ret.presentmentCurrency);
  return viewOf(PRESENTMENT, { ret, totals: ret.presentmentTotals, none });
}

/**
 * The values that the fields of a return are read from. The totals are in the requested currency. `none` is zero as
 * text.
 */
interface DetailsSource {
  readonly ret: Return;
  readonly basis: CurrencyType;
  readonly totals: Totals | undefined;
  readonly none: string;
  /** The refund in the presentment currency, or in the shop's currency when the request has `currency_type=shop`. */
  readonly refund: string;
  /** The label with the latest `created_at`. The top-level label fields are its fields. */
  readonly newest: Label | undefined;
}

const ofLabel = (text: string) => `${text} of the newest label; null without a label`;
const ofShopper = (text: string) =>
  `${text} of the shopper; null when unknown, or removed at the shopper's request`;

const field = viewFields<DetailsSource>();
const total = (meaning: string, name: TotalName) =>
  field.amount(inShopUnlessSelected(meaning), ({ totals }) => totals?.[name]);

/**
 * Return details (interface: Return details), in the newest form. Every key is always present. Without `currency_type`,
 * and in webhook payloads, amounts are in the shop's currency, except `refund`.
 */
const DETAILS = {
  id: field.other(
    'Identifier of the return: `return_id` of get return details',
    z.int(),
    ({ ret }) => Number(ret.id),
  ),
  created_at: field.plainTime('When the shopper submitted the return', ({ ret }) => ret.createdAt),
  updated_at: field.plainTime('When the details last changed', ({ ret }) => ret.updatedAt),
  edited_at: field.plainTime(
    'When the return was last edited; null until then',
    ({ ret }) => ret.editedAt,
  ),
  order_id: field.id(
    'Identifier of the order in this service. All returns of one order have the same',
    ({ ret }) => ret.order?.id,
  ),
  order_name: field.text(
    'Name of the order as the shopper knows it, such as `#1001`',
    ({ ret }) => ret.order?.name,
  ),
  order_number: field.id(
    'Running number of the order in the shop; null when unknown',
    ({ ret }) => ret.order?.number,
  ),
  provider_order_number: field.id(
    'Running number of the order at the commerce provider; null when unknown',
    ({ ret }) => ret.order?.providerOrderNumber,
  ),
  provider_order_id: field.id(
    'Identifier of the order at the commerce provider; null when unknown',
    ({ ret }) => ret.order?.providerOrderId,
  ),
  total: total(
    'Total cost of the return: `return_total + refund_shipping_total - handling_fee`',
    'total',
  ),
  customer: field.text(
    ofShopper('The same as `customer_email`: e-mail address'),
    ({ ret }) => ret.customer?.email,
  ),
  customer_email: field.text(ofShopper('E-mail address'), ({ ret }) => ret.customer?.email),
  customer_first_name: field.text(ofShopper('Given name'), ({ ret }) => ret.customer?.firstName),
  customer_last_name: field.text(ofShopper('Family name'), ({ ret }) => ret.customer?.lastName),
  multi_currency: field.other(
    "Whether the shopper paid in another currency than the shop's",
    z.boolean(),
    ({ ret }) => ret.currency !== ret.presentmentCurrency,
  ),
  state: field.other(
    '`open`: can be processed. `review`: flagged, a user must look at it first. `closed`: processed and archived. `cancelled`, `expired`: ended without processing; an expired return opens again when its parcel moves',
    z.enum(RETURN_STATES).nullable(),
    ({ ret }) => word(ReturnStateSchema, ret.state, RETURN_STATES),
  ),
  currency: field.other(
    'Currency of the shop, an ISO 4217 code',
    z.string(),
    ({ ret }) => ret.currency,
  ),
  exchange: total('Value of the exchange, the same as `exchange_total`', 'exchangeTotal'),
  exchange_order_name: field.other(
    'Names of the exchange orders that processing placed, oldest first',
    z.array(z.string()),
    ({ ret }) => ret.exchangeOrders.map(({ name }) => name),
  ),
  exchange_order_id: field.other(
    'Identifiers of these exchange orders at the commerce provider, in the same order',
    z.array(z.int()),
    ({ ret }) => ret.exchangeOrders.map(({ id }) => Number(id)),
  ),
  gift_card_order_name: field.text(
    'Name of the order that issued the gift card; null until it is issued',
    ({ ret }) => ret.giftCardOrder?.name,
  ),
  gift_card_order_id: field.id(
    'Identifier of that order, or of the card, at its provider; null until it is issued',
    ({ ret }) => ret.giftCardOrder?.id,
  ),
  gift_card: total(
    'Value of the gift card: `return_credit_total - exchange_credit_total`, zero without one',
    'giftCard',
  ),
  gift_card_presentment: field.other(
    'The gift card in the currency in which it was issued; null until it is issued',
    z
      .object({
        value: means(amount(), 'Value of the card'),
        currency: means(z.string(), 'Currency of the card, an ISO 4217 code'),
      })
      .nullable(),
    ({ ret: { giftCardPresentment: card } }) =>
      card ? { value: card.value, currency: card.currency } : null,
  ),
  refund: field.other(
    'Refund to the payment of the order. In the currency that the shopper paid in, unless `currency_type` is `shop`',
    amount(),
    (source) => source.refund,
  ),
  refunds: field.other(
    'Refunds that processing made, oldest first; empty until then',
    z.array(refund),
    ({ ret }) => refundsView(ret),
  ),
  return_product_total: total(
    'Gross value of the line items, before discounts and taxes',
    'returnProductTotal',
  ),
  return_discount_total: total('Discounts on the line items', 'returnDiscountTotal'),
  return_tax_total: total('Taxes on the line items', 'returnTaxTotal'),
  return_total: total(
    'Net value of the line items: `return_product_total - return_discount_total + return_tax_total`',
    'returnTotal',
  ),
  refund_shipping_total: total(
    'Shipping in the refund, its tax included: the sum of `refund_shipping` of the line items',
    'refundShippingTotal',
  ),
  refund_shipping_tax_total: total(
    'Tax part of that shipping: the sum of `refund_shipping_tax` of the line items',
    'refundShippingTaxTotal',
  ),
  return_credit_total: total(
    'Value that the shopper gets as credit instead of a refund',
    'returnCreditTotal',
  ),
  handling_fee: total('Fee that the merchant keeps', 'handlingFee'),
  exchange_product_total: total(
    'Gross value of the exchange items, before discounts and taxes',
    'exchangeProductTotal',
  ),
  exchange_discount_total: total('Discounts on the exchange items', 'exchangeDiscountTotal'),
  exchange_tax_total: total('Taxes on the exchange items', 'exchangeTaxTotal'),
  exchange_total: total(
    'Net value of the exchange: `exchange_product_total - exchange_discount_total + exchange_tax_total`',
    'exchangeTotal',
  ),
  exchange_credit_total: total(
    'Credit that pays for the exchange: the smaller of `return_credit_total` and `exchange_total`',
    'exchangeCreditTotal',
  ),
  upsell: total(
    'What the shopper pays on top for the exchange: `exchange_total - exchange_credit_total`',
    'upsell',
  ),
  line_items: field.other(
    'The returned line items, in the order of their submission',
    z.array(lineItem),
    ({ ret, basis, none }) =>
      ret.lineItems.map((line) => {
        const amounts = basis === 'shop' ? line.amounts : line.presentmentAmounts;
        return lineItemView({ line, amounts, none });
      }),
  ),
  presentment: field.other(
    'Totals in the currency that the shopper paid in, as stored and never converted',
    presentment,
    ({ ret }) => presentmentView(ret),
  ),
  carrier: field.text(ofLabel('Carrier'), ({ newest }) => newest?.carrier),
  label_status: field.other(
    ofLabel('Where the parcel is: the status'),
    z.enum(LABEL_STATUSES).nullable(),
    ({ newest }) => (newest ? word(LabelStatusSchema, newest.status, LABEL_STATUSES) : null),
  ),
  label_updated_at: field.time(
    ofLabel('When the carrier last changed the status or the tracking number'),
    ({ newest }) => newest?.updatedAt,
  ),
  label_url: field.text(ofLabel('Link to the file'), ({ newest }) => newest?.url),
  // The amount that the carrier bills is always in the shop's currency.
  label_rate: field.text(
    "What the carrier bills for the newest label, a decimal number as text, always in the shop's currency; null when unknown",
    ({ newest }) => newest?.rate,
  ),
  outcome: field.other(
    'What the shopper chose to get, of what the merchant allows; null when unknown',
    z.enum(RETURN_OUTCOMES).nullable(),
    ({ ret }) => word(OutcomeSchema, ret.outcome, RETURN_OUTCOMES),
  ),
  tracking_number: field.text(ofLabel('Tracking number'), ({ newest }) => newest?.trackingNumber),
  destination_id: field.idText(
    '`id` of the destination of the goods, as text; null when none was chosen',
    ({ ret }) => ret.destinationId,
  ),
  status_page_url: field.text(
    'Link to the page on which the shopper follows the return; null without one',
    ({ ret }) => ret.statusPageUrl,
  ),
  return_method: field.other(
    'How the goods travel; `keep_item`: the shopper keeps them',
    z.enum(RETURN_METHODS).nullable(),
    ({ ret }) => word(ReturnMethodSchema, ret.returnMethod, RETURN_METHODS),
  ),
  package_reference: field.text(
    'Reference of the parcel in the system that submitted the return; null without one',
    ({ ret }) => ret.packageReference,
  ),
  provider_refund_object: field.other(
    'The same refunds as records at the commerce provider, oldest first',
    z.array(providerRefund),
    ({ ret }) => providerRefundsView(ret),
  ),
  exchanges: field.other(
    'Items that the shopper gets instead; empty without an exchange',
    z.array(exchange),
    ({ ret, basis, none }) =>
      ret.exchanges.map((one) => exchangeView({ exchange: one, basis, none })),
  ),
  type: field.other(
    '`standard`, or `warranty` for a warranty claim',
    z.enum(RETURN_TYPES).nullable(),
    ({ ret }) => word(ReturnTypeSchema, ret.type, RETURN_TYPES),
  ),
  labels: field.other(
    'All shipping labels, oldest first; empty without one',
    z.array(label),
    ({ ret }) => labelsView(ret),
  ),
};

export const returnDetailsFields = shapeOf(DETAILS);
/** Payloads do not have the last field. */
export const returnDetails = z
  .object({
    ...returnDetailsFields,
    policy_version: means(
      z.int().optional(),
      'Version of the policy that judged the return; absent when none did',
    ),
  })
  .meta({ id: 'ReturnDetails' });
type ReturnDetails = ViewOf<typeof DETAILS>;

/**
 * Return details in the newest form.
 *
 * Without `currencyType`, the `refund` is in the presentment currency, and the other amounts are in the shop's
 * currency. With `shop` or `presentment`, all amounts of the return and its line items are in that currency, except
 * amounts that name their own currency.
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

/** Return details as responses have them: {@link returnDetailsView} with the version of the policy. */
export function returnDetailsResponse(
  ret: Return,
  currencyType?: CurrencyType,
): z.infer<typeof returnDetails> {
  const { policyVersion: version } = ret;
  return {
    ...returnDetailsView(ret, currencyType),
    ...(version !== undefined && { policy_version: Number(version) }),
  };
}
