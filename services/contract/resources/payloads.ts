import { z } from 'zod';
import { returnDetailsFields } from '../details/return-details.ts';
import { LABEL_STATUSES, RETURN_STATES, type Topic } from '../vocabulary.ts';
import { destination } from './destination.ts';
import { nullableId, nullableText, time } from './response-fields.ts';

/** The webhook payload of each topic, without `topic` and `trigger`, in the newest shape. */

const order = { order_id: nullableId(), provider_order_id: nullableId() };
const money = z.object({ amount: nullableText(), currency: nullableText() });
const address = destination.shape.address.nullable();

export const PAYLOAD_FIELDS: Readonly<Record<Topic, z.ZodRawShape>> = {
  return: { shop_id: z.int(), ...returnDetailsFields },
  'return.processing': {
    return_id: z.int(),
    return_state: z.enum(RETURN_STATES).nullable(),
    message: z
      .string()
      .nullable()
      .meta({ description: 'For people; may be generic. Not a stable code' }),
    source: z
      .string()
      .nullable()
      .meta({ description: '`warehouse` REST, `admin` portal, `api` MCP and gRPC' }),
  },
  label: {
    shop_id: z.int(),
    return_id: z.int(),
    ...order,
    carrier: nullableText(),
    tracking_number: nullableText(),
    label_status: z.enum(LABEL_STATUSES).nullable(),
    label_updated_at: time(),
    label_url: nullableText(),
  },
  restock: {
    id: z.int().meta({ description: 'The return' }),
    ...order,
    restock_items: z.array(
      z.object({
        line_item_id: z.int(),
        location_id: nullableId(),
        variant_id: nullableId(),
        quantity: z.int().min(1),
      }),
    ),
  },
  'label.request': {
    id: z.int(),
    return_id: z.int(),
    shop_id: z.int(),
    created_at: time(),
    addresses: z.object({ origin: address, destination: address }),
    parcel: z
      .object({ length: z.int(), width: z.int(), height: z.int(), weight: z.int() })
      .meta({ description: 'Centimetres and grams' }),
    products: z.array(
      z.object({
        name: nullableText(),
        sku: nullableText(),
        hs_code: nullableText(),
        country_of_origin: nullableText(),
        price: money,
      }),
    ),
  },
  giftcard: {
    id: z.int(),
    return_id: z.int(),
    amount: nullableText(),
    currency: nullableText(),
    email: nullableText(),
    first_name: nullableText(),
    last_name: nullableText(),
    order_id: nullableId(),
    order_name: nullableText(),
  },
  'partner.returns.shipment': {
    shipment_id: z.int(),
    partner_shipment_id: z.string(),
    return_ids: z.array(z.int()),
    processed_at: time(),
  },
};
