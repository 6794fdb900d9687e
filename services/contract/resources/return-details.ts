import { z } from 'zod';
import {
  LABEL_STATUSES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../limits.ts';
import { amount, known, knownId, lineItem, time } from './return-line.ts';

/** Return details (interface: Return details), newest shape. Every key is always present. */

const plain = () => z.string().nullable().meta({ description: 'YYYY-MM-DD hh:mm:ss, UTC' });

const refund = z
  .object({
    gateway: known(),
    amount: amount(),
    currency: known(),
    provider_refund_id: known(),
    provider: known(),
  })
  .meta({ id: 'Refund' });

const presentment = z
  .object({
    currency: z.string(),
    return_product_total: amount(),
    return_discount_total: amount(),
    return_tax_total: amount(),
    return_total: amount(),
    return_shipping_total: amount(),
    return_shipping_tax_total: amount(),
    credit_shipping_total: amount(),
    handling_fee: amount(),
    return_credit_total: amount(),
    gift_card: amount(),
    refund: amount(),
    refund_breakdown: z.array(
      z.object({ gateway: known(), provider: known(), amount: amount(), currency: known() }),
    ),
    line_items: z.array(
      z.object({ line_item_id: z.string(), price: amount(), discount: amount(), tax: amount() }),
    ),
  })
  .meta({ id: 'Presentment' });

const exchange = z
  .object({
    exchange_id: z.int(),
    product_id: knownId(),
    variant_id: knownId(),
    sku: known(),
    title: known(),
    price: amount(),
    discount: amount(),
    tax: amount(),
    total: amount(),
    type: known(),
    out_of_stock: z.boolean(),
    out_of_stock_resolution: known(),
  })
  .meta({ id: 'Exchange' });

const label = z
  .object({
    status: z.enum(LABEL_STATUSES).nullable(),
    updated_at: time(),
    url: known(),
    rate: z.int().nullable().meta({ description: "Minor units of the shop's currency" }),
    carrier: known(),
    tracking_number: known(),
    line_items: z.array(z.int()),
  })
  .meta({ id: 'Label' });

const providerRefund = z
  .object({
    id: z.int(),
    return_id: z.int(),
    provider_refund_id: knownId(),
    provider_created_at: time(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'ProviderRefund' });

export const returnDetailsFields = {
  id: z.int(),
  created_at: plain(),
  updated_at: plain(),
  edited_at: plain(),
  order_id: knownId(),
  order_name: known(),
  order_number: knownId(),
  provider_order_number: knownId(),
  provider_order_id: knownId(),
  total: amount(),
  customer: known(),
  customer_email: known(),
  customer_first_name: known(),
  customer_last_name: known(),
  multi_currency: z.boolean(),
  state: z.enum(RETURN_STATES).nullable(),
  currency: z.string(),
  exchange: amount(),
  exchange_order_name: z.array(z.string()),
  exchange_order_id: z.array(z.int()),
  gift_card_order_name: known(),
  gift_card_order_id: knownId(),
  gift_card: amount(),
  gift_card_presentment: z.object({ value: amount(), currency: z.string() }).nullable(),
  refund: amount(),
  refunds: z.array(refund),
  return_product_total: amount(),
  return_discount_total: amount(),
  return_tax_total: amount(),
  return_total: amount(),
  refund_shipping_total: amount(),
  refund_shipping_tax_total: amount(),
  return_credit_total: amount(),
  handling_fee: amount(),
  exchange_product_total: amount(),
  exchange_discount_total: amount(),
  exchange_tax_total: amount(),
  exchange_total: amount(),
  exchange_credit_total: amount(),
  upsell: amount(),
  line_items: z.array(lineItem),
  presentment,
  carrier: known(),
  label_status: z.enum(LABEL_STATUSES).nullable(),
  label_updated_at: time(),
  label_url: known(),
  label_rate: known(),
  outcome: z.enum(RETURN_OUTCOMES).nullable(),
  tracking_number: known(),
  destination_id: known(),
  status_page_url: known(),
  return_method: z.enum(RETURN_METHODS).nullable(),
  package_reference: known(),
  provider_refund_object: z.array(providerRefund),
  exchanges: z.array(exchange),
  type: z.enum(RETURN_TYPES).nullable(),
  labels: z.array(label),
};

export const returnDetails = z.object(returnDetailsFields).meta({ id: 'ReturnDetails' });
export type ReturnDetails = z.infer<typeof returnDetails>;
