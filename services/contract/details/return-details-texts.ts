import { selectable } from './field.ts';

// What each field of return details means, for the OpenAPI documents. Without `currency_type`, and in webhook payloads,
// amounts are in the shop's currency, except `refund`.

const ofLabel = (text: string) => `${text} of the newest label; null without a label`;
const ofShopper = (text: string) =>
  `${text} of the shopper; null when unknown, or removed at the shopper's request`;

export const TEXTS = {
  id: 'Identifier of the return: `return_id` of get return details',
  created_at: 'When the shopper submitted the return',
  updated_at: 'When the details last changed',
  edited_at: 'When the return was last edited; null until then',
  order_id: 'Identifier of the order in this service. All returns of one order have the same',
  order_name: 'Name of the order as the shopper knows it, such as `#1001`',
  order_number: 'Running number of the order in the shop; null when unknown',
  provider_order_number: 'Running number of the order at the commerce provider; null when unknown',
  provider_order_id: 'Identifier of the order at the commerce provider; null when unknown',
  total: selectable(
    'Total cost of the return: `return_total + refund_shipping_total - handling_fee`',
  ),
  customer: ofShopper('The same as `customer_email`: e-mail address'),
  customer_email: ofShopper('E-mail address'),
  customer_first_name: ofShopper('Given name'),
  customer_last_name: ofShopper('Family name'),
  multi_currency: "Whether the shopper paid in another currency than the shop's",
  state:
    '`open`: can be processed. `review`: flagged, a user must look at it first. `closed`: processed and archived. `cancelled`, `expired`: ended without processing; an expired return opens again when its parcel moves',
  currency: 'Currency of the shop, an ISO 4217 code',
  exchange: selectable('Value of the exchange, the same as `exchange_total`'),
  exchange_order_name: 'Names of the exchange orders that processing placed, oldest first',
  exchange_order_id:
    'Identifiers of these exchange orders at the commerce provider, in the same order',
  gift_card_order_name: 'Name of the order that issued the gift card; null until it is issued',
  gift_card_order_id:
    'Identifier of that order, or of the card, at its provider; null until it is issued',
  gift_card: selectable(
    'Value of the gift card: `return_credit_total - exchange_credit_total`, zero without one',
  ),
  gift_card_presentment:
    'The gift card in the currency in which it was issued; null until it is issued',
  refund:
    'Refund to the payment of the order. In the currency that the shopper paid in, unless `currency_type` is `shop`',
  refunds: 'Refunds that processing made, oldest first; empty until then',
  return_product_total: selectable('Gross value of the line items, before discounts and taxes'),
  return_discount_total: selectable('Discounts on the line items'),
  return_tax_total: selectable('Taxes on the line items'),
  return_total: selectable(
    'Net value of the line items: `return_product_total - return_discount_total + return_tax_total`',
  ),
  refund_shipping_total: selectable(
    'Shipping in the refund, its tax included: the sum of `refund_shipping` of the line items',
  ),
  refund_shipping_tax_total: selectable(
    'Tax part of that shipping: the sum of `refund_shipping_tax` of the line items',
  ),
  return_credit_total: selectable('Value that the shopper gets as credit instead of a refund'),
  handling_fee: selectable('Fee that the merchant keeps'),
  exchange_product_total: selectable(
    'Gross value of the exchange items, before discounts and taxes',
  ),
  exchange_discount_total: selectable('Discounts on the exchange items'),
  exchange_tax_total: selectable('Taxes on the exchange items'),
  exchange_total: selectable(
    'Net value of the exchange: `exchange_product_total - exchange_discount_total + exchange_tax_total`',
  ),
  exchange_credit_total: selectable(
    'Credit that pays for the exchange: the smaller of `return_credit_total` and `exchange_total`',
  ),
  upsell: selectable(
    'What the shopper pays on top for the exchange: `exchange_total - exchange_credit_total`',
  ),
  line_items: 'The returned line items, in the order of their submission',
  presentment: 'Totals in the currency that the shopper paid in, as stored and never converted',
  carrier: ofLabel('Carrier'),
  label_status: ofLabel('Where the parcel is: the status'),
  label_updated_at: ofLabel('When the carrier last changed the status or the tracking number'),
  label_url: ofLabel('Link to the file'),
  label_rate:
    "What the carrier bills for the newest label, a decimal number as text, always in the shop's currency; null when unknown",
  outcome: 'What the shopper chose to get, of what the merchant allows; null when unknown',
  tracking_number: ofLabel('Tracking number'),
  destination_id: '`id` of the destination of the goods, as text; null when none was chosen',
  status_page_url: 'Link to the page on which the shopper follows the return; null without one',
  return_method: 'How the goods travel; `keep_item`: the shopper keeps them',
  package_reference:
    'Reference of the parcel in the system that submitted the return; null without one',
  provider_refund_object: 'The same refunds as records at the commerce provider, oldest first',
  exchanges: 'Items that the shopper gets instead; empty without an exchange',
  type: '`standard`, or `warranty` for a warranty claim',
  labels: 'All shipping labels, oldest first; empty without one',
} as const;
