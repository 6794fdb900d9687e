import { writeFile } from 'node:fs/promises';
import { z } from 'zod';
import { type CommerceEvent, EVENT_DATA } from './events.ts';
import {
  foundAnswer,
  listAnswer,
  orderAnswer,
  PROTOCOL_VERSION,
  type ProtocolEffect,
  REQUEST_DATA,
  type RequestData,
  type RequestType,
  refusalAnswer,
} from './protocol.ts';

const TITLES = {
  'exchange_order.create': 'Place an exchange order',
  'gift_card.create': 'Issue a gift card',
  'refund.create': 'Refund the shopper',
  'inventory.restock': 'Return goods to stock',
  'order.cancel': 'Cancel an exchange order',
  'effect.find': 'Find an effect by its key',
  'effect.list': 'List the effects of a period',
  'order.find': 'Find an order by its name or id',
} as const;

const EVENT_TITLES = {
  'order.updated': 'An order changed',
  'refund.created': 'A refund was made',
} as const;

const header = (name: string, description: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
});
const SIGNED_HEADERS = [
  header('webhook-id', 'Id of the request, by Standard Webhooks'),
  header('webhook-timestamp', 'Seconds since 1970'),
  header('webhook-signature', '`v1,` and a signature, for each valid secret'),
];

/** The OpenAPI document of the protocol between this service and a merchant's endpoint. */
export function commerceDocument(): object {
  return {
    openapi: '3.1.0',
    info: {
      title: "A merchant's commerce endpoint",
      version: PROTOCOL_VERSION,
      description:
        'What the returns service requests of your endpoint when it processes a return. You implement it. docs/commerce.md explains the rules.',
      contact: {
        name: 'Documentation of the returns service',
        url: 'https://returns.example/docs',
      },
      // The license, as in package.json.
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: 'https://commerce.example/returns', description: 'Your endpoint' }],
    security: [],
    tags: [
      { name: 'Effects', description: 'What the returns service requests of you' },
      { name: 'Events', description: 'What you report to the returns service' },
    ],
    paths: {
      '/': effectsPath(),
      '/commerce/events/{shop_id}': eventsPath(),
    },
  };
}

/** The path of a merchant's endpoint, to which the returns service sends its requests. */
function effectsPath() {
  const requests = Object.entries(REQUEST_DATA).map(([type, data]) => ({
    title: TITLES[type as keyof typeof TITLES],
    ...schemaOf(
      z.strictObject({
        type: z.literal(type).describe('What is requested'),
        version: z.string().describe('The version of this protocol'),
        sent_at: z.iso.datetime({ offset: true }).describe('When the request was sent'),
        shop_id: z.int().min(1).describe('The shop'),
        sandbox: z.boolean().describe('True for a sandbox shop and for checks: move no money'),
        data: data.describe('The request'),
      }),
    ),
  }));
  return {
    post: {
      operationId: 'requestEffect',
      tags: ['Effects'],
      summary: 'Make or find an effect',
      description: 'A request is signed. A repeated key gets the first answer.',
      parameters: [
        ...SIGNED_HEADERS,
        {
          ...header(
            'idempotency-key',
            'The same as `data.key`; not with `effect.list` and `order.find`',
          ),
          required: false,
        },
      ],
      requestBody: {
        required: true,
        content: {
          'application/json': { schema: { oneOf: requests }, ...byType(REQUEST_EXAMPLES) },
        },
      },
      responses: effectResponses(),
    },
  };
}

/** The responses of a merchant's endpoint. */
function effectResponses() {
  return {
    200: answer(
      'The effect. To `effect.find`: the effect, or null without one. To `effect.list`: a page. To `order.find`: the order, or null',
      z.union([foundAnswer, listAnswer, orderAnswer]),
      { examples: ANSWER_EXAMPLES },
    ),
    400: refused(
      'Rejected, and not sent again: nothing was made. 422 means the same',
      'The order is older than 90 days: refund it by hand.',
    ),
    409: refused(
      'Not now, for example because the key is in use. Sent again',
      'A request with this key is being handled.',
    ),
    429: refused('Too many requests. Sent again, after Retry-After', 'Too many requests.'),
  };
}

/** The path to which a platform sends events. */
function eventsPath() {
  const events = Object.entries(EVENT_DATA).map(([type, data]) => ({
    title: EVENT_TITLES[type as keyof typeof EVENT_TITLES],
    ...schemaOf(
      z.object({
        type: z.literal(type).describe('What happened'),
        data: data.describe('The event'),
      }),
    ),
  }));
  const shop = { name: 'shop_id', in: 'path', required: true, description: 'The shop' };
  return {
    servers: [{ url: 'https://returns.example', description: 'The returns service' }],
    post: {
      operationId: 'sendEvent',
      tags: ['Events'],
      summary: 'Report what happened at your platform',
      description:
        'You send it, signed with a secret of the connection. An event with an earlier id changes nothing.',
      parameters: [{ ...shop, schema: { type: 'integer' } }, ...SIGNED_HEADERS],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { oneOf: events }, ...byType(EVENT_EXAMPLES) } },
      },
      responses: {
        204: { description: 'Recorded, now or before' },
        400: refused(
          'Not as documented. The message names the field',
          'data.order.lines must hold each line_item_id once',
        ),
        401: refused(
          'The signature is not valid, or the shop is not connected',
          'The signature is not valid for this shop, or its time is not now.',
        ),
        413: refused('Larger than 256 KiB', 'The request body must be at most 0.25 MiB.'),
        429: refused(
          'Too many events. Send it again after Retry-After',
          'Too many requests. Try again in 5 s.',
        ),
        503: refused(
          'Not available. Send it again after Retry-After',
          'The service is not available at the moment. Try again shortly.',
        ),
      },
    },
  };
}

function answer(description: string, schema: z.ZodType, examples: object) {
  return {
    description,
    content: { 'application/json': { schema: schemaOf(schema), ...examples } },
  };
}

function refused(description: string, message: string) {
  return answer(description, refusalAnswer, { example: refusal(message) });
}

function schemaOf(schema: z.ZodType): object {
  const { $schema, ...rest } = z.toJSONSchema(schema, { target: 'draft-2020-12', io: 'input' });
  return rest;
}

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
const REQUEST_EXAMPLES = Object.entries(DATA).map(([type, data]) => ({
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
    email: 'shopper@example.com',
    postal_code: 'N1 1AA',
    shipping_country: 'GB',
    ordered_at: '2026-11-10T09:00:00Z',
    fulfilled_at: '2026-11-11T15:00:00Z',
    delivered_at: '2026-11-13T11:00:00Z',
    cancelled_at: null,
    lines: goods.map(({ product, variant, ...line }) => ({
      ...line,
      product_id: product,
      variant_id: variant,
      variant_title: 'Medium',
      kind: 'product' as const,
      tags: ['new'],
      quantity: 1,
      shipped: 1,
      returnable: 1,
      paid: { total: price },
    })),
  },
};

/** The examples of answers with status 200, by name. */
const ANSWER_EXAMPLES = {
  effect: { summary: 'The effect that was made, now or before', value: made },
  nothing: { summary: 'To effect.find: nothing was made with this key', value: { effect: null } },
  list: { summary: 'To effect.list', value: list },
  order: { summary: 'To order.find', value: found },
};

/** Returns an answer that says why nothing was done. */
function refusal(message: string): z.input<typeof refusalAnswer> {
  return { error: { message } };
}

/** Returns the keys of a media type that hold examples. The name of each example is its type. */
function byType(values: readonly { readonly type: string }[]): object {
  return { examples: Object.fromEntries(values.map((value) => [value.type, { value }])) };
}

/** An example of each type of event. */
const EVENT_EXAMPLES: readonly CommerceEvent[] = [
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

/** Writes docs/openapi/commerce.json (`npm run docs`). */
if (import.meta.main) {
  const file = new URL('../../../docs/openapi/commerce.json', import.meta.url);
  await writeFile(file, `${JSON.stringify(commerceDocument(), undefined, 2)}\n`);
}
