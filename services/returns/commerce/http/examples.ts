import type { z } from 'zod';
import type { CommerceEvent } from './events.ts';
import {
  type foundAnswer,
  type listAnswer,
  type orderAnswer,
  PROTOCOL_VERSION,
  type ProtocolEffect,
  type RequestData,
  type RequestType,
  type refusalAnswer,
} from './protocol.ts';

// The examples in docs/openapi/commerce.json. They are about the first return of the demo shop (deploy/local/demo).

const RETURN_ID = 1;
const order = { id: 1_000_000_010_000, name: '#10000' };
const exchangeOrder = { id: 1_000_000_000_001, name: '#10000-E1' };
const about = (kind: string) => ({
  key: `rms:return:${RETURN_ID}:5f0c1d9a4b7e4c02a6d38f51b2e94c70:${kind}`,
  return_id: RETURN_ID,
  order,
});
const money = { amount: '87.00', currency: 'GBP' };
const lineId = 1_000_010_000_000;
const goods = [
  { line_item_id: lineId, sku: 'SKU-5000', title: 'Canvas tote', product: 5000, variant: 50_000 },
  {
    line_item_id: lineId + 1,
    sku: 'SKU-5001',
    title: 'Wool scarf',
    product: 5001,
    variant: 50_001,
  },
];
const details = { warehouse_reference: 'WH-4711', priority: true };

const DATA: { readonly [T in RequestType]: RequestData<T> } = {
  'exchange_order.create': {
    ...about('exchange_order'),
    amount: '92.00',
    currency: 'GBP',
    paid_by_return: '87.00',
    due: '5.00',
    items: [
      {
        product_id: 6000,
        variant_id: 60_000,
        sku: 'SKU-6000',
        title: 'Canvas tote - Large',
        price: '92.00',
        discount: '0.00',
        tax: '0.00',
      },
    ],
    details,
  },
  'gift_card.create': { ...about('gift_card'), ...money, details },
  'refund.create': {
    ...about('refund'),
    ...money,
    lines: goods.map(({ line_item_id, sku }) => ({
      line_item_id,
      sku,
      quantity: 1,
      refund: '45.00',
      shipping: '3.00',
    })),
  },
  'inventory.restock': {
    ...about('restock'),
    lines: goods.map(({ line_item_id, variant, sku }) => ({
      line_item_id,
      variant_id: variant,
      sku,
      quantity: 1,
      location_id: 1_000_000_000_001,
    })),
  },
  'order.cancel': { ...about('order_cancel'), exchange_order: exchangeOrder },
  'effect.find': { ...about('refund'), kind: 'refund' },
  'effect.list': { from: '2026-11-24T00:00:00Z', to: '2026-11-25T00:00:00Z', cursor: '' },
  'order.find': { name: order.name },
};

/** An example of each type of request. */
export const REQUEST_EXAMPLES = Object.entries(DATA).map(([type, data]) => ({
  type,
  version: PROTOCOL_VERSION,
  sent_at: '2026-11-24T10:05:30.000Z',
  shop_id: 1,
  sandbox: false,
  data,
}));

const refund: ProtocolEffect = {
  id: 'R-991',
  gateway: 'card',
  ...money,
  created_at: '2026-11-24T10:05:31Z',
};
const made: z.input<typeof foundAnswer> = { effect: refund };
const list: z.input<typeof listAnswer> = {
  effects: [
    { ...refund, key: about('refund').key, kind: 'refund', created_at: '2026-11-24T10:05:31Z' },
  ],
  next_cursor: null,
};
const price = { shop: '36.00', presentment: '36.00' };
const found: z.input<typeof orderAnswer> = {
  order: {
    ...order,
    currency: 'GBP',
    presentment_currency: 'GBP',
    lines: goods.map(({ product, variant, ...line }) => ({
      ...line,
      product_id: product,
      variant_id: variant,
      quantity: 1,
      returnable: 1,
      paid: { total: price },
    })),
  },
};

/** The examples of answers with status 200, by name. */
export const ANSWER_EXAMPLES = {
  effect: { summary: 'The effect that was made, now or before', value: made },
  nothing: { summary: 'To effect.find: nothing was made with this key', value: { effect: null } },
  list: { summary: 'To effect.list', value: list },
  order: { summary: 'To order.find', value: found },
};

/** Returns an answer that says why nothing was done. */
export function refusal(message: string): z.input<typeof refusalAnswer> {
  return { error: { message } };
}

/** Returns the keys of a media type that hold examples. The name of each example is its type. */
export function byType(values: readonly { readonly type: string }[]): object {
  return { examples: Object.fromEntries(values.map((value) => [value.type, { value }])) };
}

/** An example of each type of event. */
export const EVENT_EXAMPLES: readonly CommerceEvent[] = [
  {
    type: 'order.updated',
    data: {
      order: {
        ...order,
        updated_at: '2026-11-24T12:00:00Z',
        cancelled_at: null,
        lines: goods.map(({ line_item_id }) => ({ line_item_id, quantity: 1 })),
      },
    },
  },
  {
    type: 'refund.created',
    data: {
      refund: {
        id: 'R-991',
        key: about('refund').key,
        order_id: order.id,
        created_at: '2026-11-24T10:05:31Z',
        ...money,
        lines: goods.map(({ line_item_id }) => ({ line_item_id, quantity: 1, amount: '43.50' })),
      },
    },
  },
];
