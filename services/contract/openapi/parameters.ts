import { MAX_ID } from '../../platform/values/ids.ts';
import {
  CURSOR_MAX,
  EMAIL_MAX,
  IDEMPOTENCY_KEY_MAX,
  PAGE_DEFAULT,
  PAGE_MAX,
  SEARCH_TEXT_MAX,
  SHORT_TEXT_MAX,
} from '../limits.ts';
import type { Operation, OperationId } from '../operation.ts';
import { ownBound } from '../resources/fields.ts';
import { ARCHIVED_FILTERS, RETURN_SORTS } from '../resources/return-list.ts';
import {
  CURRENCY_TYPES,
  DELIVERY_STATES,
  LABEL_STATUSES,
  RETURN_STATES,
  TRIGGERS,
} from '../vocabulary.ts';

/** The path, query and header parameters of an operation, for its OpenAPI object. */
export function parametersOf(operation: Operation): readonly object[] {
  return [
    ...pathParameters(operation.path),
    ...(QUERIES[operation.id] ?? []),
    ...(operation.keyed ? [idempotencyKey(operation.keyed)] : []),
  ];
}

const WITHOUT_KEY = {
  content: 'the content of the request is its key',
  header: 'every request counts',
  state: 'the state of the object decides what a repeat does',
  required: 'it is rejected (422)',
} as const;

const KEY_SCHEMA = { type: 'string', minLength: 1, maxLength: IDEMPOTENCY_KEY_MAX, ...ownBound };

function idempotencyKey(keyed: NonNullable<Operation['keyed']>): object {
  if (keyed === 'required') {
    const description =
      "Required: any text of the caller's choice, such as a UUID, with or without double quotes. A repeat with the same key and content changes nothing more, and returns the first result with the status 200. With other content it is rejected (409)";
    return {
      name: 'Idempotency-Key',
      in: 'header',
      required: true,
      description,
      schema: KEY_SCHEMA,
    };
  }
  return {
    name: 'Idempotency-Key',
    in: 'header',
    description: `Any text of the caller's choice, such as a UUID, with or without double quotes (draft-ietf-httpapi-idempotency-key-header). A repeat with the same key and content changes nothing more and returns the first result as it is now, for at least 24 hours. With other content it is rejected (422). Without the header, ${WITHOUT_KEY[keyed]}`,
    schema: KEY_SCHEMA,
  };
}
const idSchema = { type: 'integer', minimum: 1, maximum: Number(MAX_ID) };

/** The descriptions of `{id}`, by the path segment before it. */
const ID_OF: Readonly<Record<string, string>> = {
  webhooks: '`id` of the webhook',
  'webhook-replays': '`id` of the replay or backfill',
  destinations: '`id` of the destination',
  returns: '`id` of the return',
  return: '`id` of the return',
  labels: '`id` of the label',
};
const TEXT_SEGMENTS: Readonly<Record<string, string>> = {
  delivery_id: 'The `webhook-id` of the delivery, which begins with `msg_`',
  token: 'The token of the cart',
};

/** The path parameters. @throws Error for a segment without a description in {@link ID_OF}. */
function pathParameters(path: string): readonly object[] {
  const segments = path.split('/');
  return segments.flatMap((segment, at) => {
    const name = /^\{(.+)\}$/.exec(segment)?.[1];
    if (name === undefined) return [];
    const description = name === 'id' ? ID_OF[segments[at - 1] ?? ''] : TEXT_SEGMENTS[name];
    if (description === undefined) throw new Error(`no description of ${segment} in ${path}`);
    const schema = name === 'id' ? idSchema : { type: 'string' };
    return [{ name, in: 'path', required: true, description, schema }];
  });
}

const EXACTLY_ONE =
  'Exactly one of return_id, order_id, order_name and provider_order_id selects the return';
const DETAILS_QUERY = [
  {
    name: 'return_id',
    in: 'query',
    description: `\`id\` of the return. ${EXACTLY_ONE}`,
    schema: idSchema,
  },
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

const ELIGIBILITY_QUERY = [
  {
    name: 'order_name',
    in: 'query',
    description:
      'The order name at the commerce platform. Exactly one of order_name and provider_order_id selects the order',
    schema: { type: 'string', minLength: 1, maxLength: SHORT_TEXT_MAX, ...ownBound },
  },
  {
    name: 'provider_order_id',
    in: 'query',
    description: "The order's id at the commerce platform",
    schema: idSchema,
  },
  {
    name: 'email',
    in: 'query',
    description: 'If present, the order must have this e-mail address, in any case of letters',
    schema: { type: 'string', minLength: 1, maxLength: EMAIL_MAX, ...ownBound },
  },
];

/** The query parameters of a list with pages. */
function pageOf(what: string): readonly object[] {
  return [
    {
      name: 'limit',
      in: 'query',
      description: `Maximum number of ${what} of a page`,
      schema: {
        type: 'integer',
        minimum: 1,
        maximum: PAGE_MAX,
        default: PAGE_DEFAULT,
        ...ownBound,
      },
    },
    {
      name: 'cursor',
      in: 'query',
      description: '`next_cursor` of the previous page, with the same filters and the same order',
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

const someOf = (name: string, description: string, words: readonly string[]) => ({
  name,
  in: 'query',
  description: `${description}; several are separated by commas`,
  style: 'form',
  explode: false,
  schema: { type: 'array', items: { type: 'string', enum: [...words] }, minItems: 1 },
});
const timeFilter = (name: string, description: string) => ({
  name,
  in: 'query',
  description: `${description} (RFC 3339)`,
  schema: EVENT_TIME,
});

const RETURNS_QUERY = [
  someOf('state', 'Returns in any of these states', RETURN_STATES),
  someOf('label_status', 'Returns whose newest label has any of these statuses', LABEL_STATUSES),
  {
    name: 'archived',
    in: 'query',
    description:
      'Whether archived returns, which are the closed ones, are in the list. When absent, they are only with `state=closed`',
    schema: { type: 'string', enum: [...ARCHIVED_FILTERS] },
  },
  timeFilter('created_from', 'Returns that were submitted at or after this time'),
  timeFilter('created_to', 'Returns that were submitted before this time'),
  timeFilter('updated_from', 'Returns whose details last changed at or after this time'),
  timeFilter('updated_to', 'Returns whose details last changed before this time'),
  {
    name: 'destination_id',
    in: 'query',
    description: 'Returns to this destination',
    schema: idSchema,
  },
  {
    name: 'query',
    in: 'query',
    description:
      "A whole order name or return id, each with or without `#`, SKU, tracking number or the shopper's e-mail address, or a part of the title of a line item, or, with at least three characters, of the shopper's name. Case matters only for order names, SKUs and tracking numbers; the Unicode form never matters",
    schema: { type: 'string', pattern: '\\S', maxLength: SEARCH_TEXT_MAX, ...ownBound },
  },
  {
    name: 'sort',
    in: 'query',
    description: 'The order; `-` is the latest first. Equal times are in the order of ids',
    schema: { type: 'string', enum: [...RETURN_SORTS], default: '-created_at' },
  },
  ...pageOf('returns'),
];

const exactly = (name: string, description: string) => ({
  name,
  in: 'query',
  description,
  schema: { type: 'string', minLength: 1, maxLength: SHORT_TEXT_MAX, ...ownBound },
});
const EXPECTED_QUERY = [
  {
    name: 'destination_id',
    in: 'query',
    description: 'Goods that go to this destination',
    schema: idSchema,
  },
  exactly('tracking_number', 'Goods of the return that has a label with this tracking number'),
  exactly('order_name', 'Goods of the order with this name'),
  exactly('sku', 'Goods with this SKU'),
  timeFilter('updated_since', 'Returns whose details last changed at or after this time'),
  ...pageOf('line items'),
];

const QUERIES: Readonly<Partial<Record<OperationId, readonly object[]>>> = {
  getReturnDetails: DETAILS_QUERY,
  getEligibility: ELIGIBILITY_QUERY,
  listDeliveries: DELIVERIES_QUERY,
  listReplays: REPLAYS_QUERY,
  listReturns: RETURNS_QUERY,
  getReturnTimeline: pageOf('entries'),
  listExpected: EXPECTED_QUERY,
};
