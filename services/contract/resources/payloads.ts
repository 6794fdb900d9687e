import { z } from 'zod';
import { returnDetailsFields } from '../details/return-details.ts';
import { LABEL_STATUSES, RETURN_STATES, type Topic } from '../vocabulary.ts';
import { known, knownId, time } from './answers.ts';
import { destination } from './destination.ts';

/** The webhook payload of each topic, without `topic` and `trigger`, in the newest shape. */

const order = { order_id: knownId(), provider_order_id: knownId() };
const money = z.object({ amount: known(), currency: known() });
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
    carrier: known(),
    tracking_number: known(),
    label_status: z.enum(LABEL_STATUSES).nullable(),
    label_updated_at: time(),
    label_url: known(),
  },
  restock: {
    id: z.int().meta({ description: 'The return' }),
    ...order,
    restock_items: z.array(
      z.object({
        line_item_id: z.int(),
        location_id: knownId(),
        variant_id: knownId(),
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
        name: known(),
        sku: known(),
        hs_code: known(),
        country_of_origin: known(),
        price: money,
      }),
    ),
  },
  giftcard: {
    id: z.int(),
    return_id: z.int(),
    amount: known(),
    currency: known(),
    email: known(),
    first_name: known(),
    last_name: known(),
    order_id: knownId(),
    order_name: known(),
  },
  'partner.returns.shipment': {
    shipment_id: z.int(),
    partner_shipment_id: z.string(),
    return_ids: z.array(z.int()),
    processed_at: time(),
  },
};
