import { MAX_ID } from '../../platform/ids.ts';
import {
  CURSOR_MAX,
  DELIVERIES_PAGE_DEFAULT,
  DELIVERIES_PAGE_MAX,
  IDEMPOTENCY_KEY_MAX,
  SHORT_TEXT_MAX,
} from '../limits.ts';
import type { Operation, OperationId } from '../operation.ts';
import { ownBound } from '../resources/fields.ts';
import { CURRENCY_TYPES, DELIVERY_STATES, TRIGGERS } from '../vocabulary.ts';

/** The path, query and header parameters of an operation, for its OpenAPI object. */
export function parametersOf(operation: Operation): readonly object[] {
  return [
    ...PATH_IDS.filter(({ name }) => operation.path.includes(`{${name}}`)),
    ...(QUERIES[operation.id] ?? []),
    ...(operation.keyed ? [idempotencyKey(operation.keyed)] : []),
  ];
}

const WITHOUT_KEY = {
  content: 'the content of the request is its key',
  header: 'every request counts',
} as const;

function idempotencyKey(keyed: NonNullable<Operation['keyed']>): object {
  return {
    name: 'Idempotency-Key',
    in: 'header',
    description: `A repeat with the same key and content returns the first result, for 90 days. With other content it is rejected (409). Without the header, ${WITHOUT_KEY[keyed]}`,
    schema: { type: 'string', minLength: 1, maxLength: IDEMPOTENCY_KEY_MAX, ...ownBound },
  };
}

const idSchema = { type: 'integer', minimum: 1, maximum: Number(MAX_ID) };
const PATH_IDS = [
  { name: 'id', in: 'path', required: true, schema: idSchema },
  {
    name: 'delivery_id',
    in: 'path',
    required: true,
    description: 'The `webhook-id` of the delivery',
    schema: { type: 'string' },
  },
  {
    name: 'token',
    in: 'path',
    required: true,
    description: 'The token of the cart',
    schema: { type: 'string' },
  },
];
const EXACTLY_ONE =
  'Exactly one of return_id, order_id, order_name and provider_order_id selects the return';
const DETAILS_QUERY = [
  { name: 'return_id', in: 'query', description: EXACTLY_ONE, schema: idSchema },
  {
    name: 'order_id',
    in: 'query',
    description:
      "The order's id, as `order_id` of the response. If the shop has no such order, it is read as the commerce provider's id",
    schema: idSchema,
  },
  {
    name: 'order_name',
    in: 'query',
    description: 'The order name at the commerce provider',
    schema: { type: 'string', minLength: 1, maxLength: SHORT_TEXT_MAX, ...ownBound },
  },
  {
    name: 'provider_order_id',
    in: 'query',
    description: "The order's id at the commerce provider",
    schema: idSchema,
    'x-addition': true,
  },
  {
    name: 'currency_type',
    in: 'query',
    description:
      'The currency of all amounts. When absent, `refund` is in the currency that the shopper paid in, the other amounts in the shop currency',
    schema: { type: 'string', enum: [...CURRENCY_TYPES] },
  },
];

/** The parameters of a page. */
function pageOf(what: string): readonly object[] {
  return [
    {
      name: 'limit',
      in: 'query',
      description: `Maximum number of ${what} of a page`,
      schema: {
        type: 'integer',
        minimum: 1,
        maximum: DELIVERIES_PAGE_MAX,
        default: DELIVERIES_PAGE_DEFAULT,
        ...ownBound,
      },
    },
    {
      name: 'cursor',
      in: 'query',
      description: '`next_cursor` of the previous page',
      schema: { type: 'string', minLength: 1, maxLength: CURSOR_MAX, ...ownBound },
    },
  ];
}

const EVENT_TIME = { type: 'string', format: 'date-time' };
const DELIVERIES_QUERY = [
  {
    name: 'state',
    in: 'query',
    description: 'State of the delivery',
    schema: { type: 'string', enum: [...DELIVERY_STATES] },
  },
  {
    name: 'trigger',
    in: 'query',
    description: 'The trigger of the event',
    schema: { type: 'string', enum: [...TRIGGERS] },
  },
  {
    name: 'from',
    in: 'query',
    description: 'Deliveries of events at or after this time (RFC 3339)',
    schema: EVENT_TIME,
  },
  {
    name: 'to',
    in: 'query',
    description: 'Deliveries of events before this time (RFC 3339)',
    schema: EVENT_TIME,
  },
  ...pageOf('deliveries'),
];
const REPLAYS_QUERY = [
  {
    name: 'webhook_id',
    in: 'query',
    description: 'Only replays and backfills of this webhook',
    schema: idSchema,
  },
  ...pageOf('replays'),
];

const QUERIES: Readonly<Partial<Record<OperationId, readonly object[]>>> = {
  getReturnDetails: DETAILS_QUERY,
  listDeliveries: DELIVERIES_QUERY,
  listReplays: REPLAYS_QUERY,
};
