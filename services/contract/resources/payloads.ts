import { z } from 'zod';
import { returnDetailsFields } from '../details/return-details.ts';
import { LABEL_STATUSES, RETURN_STATES, type Topic } from '../vocabulary.ts';
import { destinationAddress } from './destination.ts';
import { means, nullableId, nullableText, time } from './response-fields.ts';

/** The webhook payload of each topic, without `topic` and `trigger`, in the newest shape. */

const order = {
  order_id: means(nullableId(), 'Identifier of the order in this service'),
  provider_order_id: means(
    nullableId(),
    'Identifier of the order at the commerce provider; null when unknown',
  ),
};
const money = z.object({
  amount: means(nullableText(), 'Price, a decimal number as text; null when unknown'),
  currency: means(nullableText(), 'Currency of the shop, an ISO 4217 code; null when unknown'),
});
const place = (what: string) => means(destinationAddress.nullable(), what);
const shopId = means(z.int(), 'The shop');
const returnId = means(z.int(), 'The return');
const known = (schema: z.ZodType, what: string) => means(schema, `${what}; null when unknown`);

export const PAYLOAD_FIELDS: Readonly<Record<Topic, z.ZodRawShape>> = {
  return: { shop_id: shopId, ...returnDetailsFields },
  'return.processing': {
    return_id: returnId,
    return_state: means(
      z.enum(RETURN_STATES).nullable(),
      'State of the return, which can be processed again while it is `open`',
    ),
    message: means(
      nullableText(),
      'Why processing failed, for people; may be generic or null, and is no stable code',
    ),
    source: known(
      nullableText(),
      'Who requested processing: `warehouse` REST, `admin` portal, `api` MCP and gRPC',
    ),
  },
  label: {
    shop_id: shopId,
    return_id: returnId,
    ...order,
    carrier: known(nullableText(), 'Name of the carrier'),
    tracking_number: means(nullableText(), 'Tracking number; null when there is none yet'),
    label_status: means(z.enum(LABEL_STATUSES).nullable(), 'Where the parcel is'),
    label_updated_at: means(
      time(),
      'When the carrier last changed the status or the tracking number',
    ),
    label_url: means(nullableText(), 'Link to the label; null without one'),
  },
  restock: {
    id: returnId,
    ...order,
    restock_items: means(
      z.array(
        z.object({
          line_item_id: means(z.int(), 'The line item'),
          location_id: known(
            nullableId(),
            'Identifier of the location at the commerce provider that takes the goods',
          ),
          variant_id: known(nullableId(), 'Identifier of the variant at the commerce provider'),
          quantity: means(z.int().min(1), 'Number of units'),
        }),
      ),
      'The goods that go back to stock',
    ),
  },
  'label.request': {
    id: means(z.int(), 'Identifier of the label request'),
    return_id: means(z.int(), 'The return that needs a label'),
    shop_id: shopId,
    created_at: means(time(), 'When the label was requested'),
    addresses: means(
      z.object({
        origin: place("Where the parcel starts: the shopper's address; null when unknown"),
        destination: place('Where it goes: the destination of the return; null when unknown'),
      }),
      'Where the parcel starts and goes',
    ),
    parcel: means(
      z.object({
        length: means(z.int(), 'Length in centimetres'),
        width: means(z.int(), 'Width in centimetres'),
        height: means(z.int(), 'Height in centimetres'),
        weight: means(z.int(), 'Weight of the goods in grams; 0 when unknown'),
      }),
      'Size of the parcel as the settings of the shop say, and weight of the goods',
    ),
    products: means(
      z.array(
        z.object({
          name: known(nullableText(), 'Title of the product'),
          sku: known(nullableText(), 'Stock keeping unit'),
          hs_code: known(nullableText(), 'Harmonised System code, for customs'),
          country_of_origin: known(nullableText(), 'ISO 3166 code of the country of origin'),
          price: means(money, 'Price of the goods, for customs'),
        }),
      ),
      'The goods in the parcel',
    ),
  },
  giftcard: {
    id: means(z.int(), 'Identifier of the request, as in the response of record gift card'),
    return_id: means(z.int(), 'The return that the card is for'),
    amount: means(nullableText(), 'Value of the card, a decimal number as text in `currency`'),
    currency: means(nullableText(), 'Currency that the shopper paid in, an ISO 4217 code'),
    email: known(nullableText(), "The shopper's e-mail address"),
    first_name: known(nullableText(), "The shopper's given name"),
    last_name: known(nullableText(), "The shopper's family name"),
    order_id: order.order_id,
    order_name: known(nullableText(), 'Name of the order, such as `#1001`'),
  },
  'partner.returns.shipment': {
    shipment_id: means(z.int(), 'Identifier of the shipment in this service'),
    partner_shipment_id: means(z.string(), 'Identifier of the shipment at the partner'),
    return_ids: means(z.array(z.int()), 'The returns that have goods in it, ascending'),
    processed_at: means(time(), 'When the partner processed it'),
  },
};
