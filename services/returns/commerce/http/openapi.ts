import { z } from 'zod';
import { EVENT_DATA } from './events.ts';
import { ANSWER_EXAMPLES, byType, EVENT_EXAMPLES, REQUEST_EXAMPLES, refusal } from './examples.ts';
import {
  foundAnswer,
  listAnswer,
  orderAnswer,
  PROTOCOL_VERSION,
  REQUEST_DATA,
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
  'order.find': 'Find an order by its name',
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
      license: { name: 'UNLICENSED: all rights reserved', identifier: 'LicenseRef-UNLICENSED' },
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
