import type { z } from 'zod';
import type { PublicError } from './errors.ts';
import { BODY_BYTES_MAX } from './limits.ts';
import type { Scope } from './scopes.ts';

/** What an operation of REST consists of. */

export type OperationId =
  | 'listWebhooks'
  | 'createWebhook'
  | 'getWebhook'
  | 'updateWebhook'
  | 'deleteWebhook'
  | 'listDeliveries'
  | 'retryDeliveries'
  | 'replayDelivery'
  | 'testWebhook'
  | 'rotateWebhookSecret'
  | 'getWebhookSecret'
  | 'endEarlierSecrets'
  | 'previewReplay'
  | 'startReplay'
  | 'listReplays'
  | 'getReplay'
  | 'cancelReplay'
  | 'listExpected'
  | 'recordArrival'
  | 'assessDispositions'
  | 'gradeItems'
  | 'listDestinations'
  | 'getDestination'
  | 'updateDestination'
  | 'getPolicy'
  | 'listReturns'
  | 'getReturnDetails'
  | 'getEligibility'
  | 'submitReturn'
  | 'createFraudReport'
  | 'listEffects'
  | 'cancelReturn'
  | 'getReturnTimeline'
  | 'recordLabel'
  | 'updateLabel'
  | 'recordGiftCard'
  | 'processReturn'
  | 'createCart'
  | 'getCart';

/** The groups of operations in the OpenAPI documents, in their order, with what they are. */
export const TAGS = {
  Webhooks: 'Subscriptions to events, and the log of their deliveries',
  Dispositions: 'What a warehouse found and decided about returned line items',
  Warehouse: 'Goods that a warehouse expects, and what arrived',
  Destinations: 'Warehouses and donation centres that returns are sent to',
  Returns: 'Returns of a shop, their processing and their fraud reports',
  Labels: 'Shipping labels of returns, for their providers',
  'Gift cards': 'Gift cards of returns, for their providers',
  Carts: 'Carts of product variants, for a checkout',
  'Webhook payloads': 'The bodies that webhooks receive',
};

export interface OperationBody {
  readonly schema: z.ZodType;
  /** When false, an absent body counts as `{}`. */
  readonly required: boolean;
  /** Maximum size after decompression. Bytes. */
  readonly maxBytes: number;
  /** Whether numbers keep all digits that the caller sent. */
  readonly exactNumbers?: boolean;
}

export interface Operation {
  readonly id: OperationId;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /**
   * The path after the version. `{id}` is an id of this service, `{delivery_id}` a `webhook-id`, `{token}` the secret
   * token of a cart.
   */
  readonly path: string;
  /**
   * Each of these scopes is enough, as is one that includes one of them (`scopesOpening`). Challenges name the first,
   * so it is the narrowest, or the one that callers of earlier releases know.
   */
  readonly scopes: readonly [Scope, ...Scope[]];
  /**
   * `bearer-or-api-key`: the operation reads `Authorization` when its scheme is `Bearer`, else `X-Authorization`.
   * `api-key`: it only reads `X-Authorization`.
   */
  readonly credentials: 'api-key' | 'bearer-or-api-key';
  /**
   * True for an operation that read only keys before partners' tokens could open it. So that callers of that time get
   * the same responses, a valid key with none of the later scopes is used even beside a token.
   */
  readonly earlierKeysFirst?: boolean;
  /** The response when a valid credential lacks the scope. */
  readonly forbidden: 'message-403' | 'errors-401';
  /** The 404 for an id that the shop does not have; absent when the operation has no id. */
  readonly notFound?: PublicError;
  readonly body?: OperationBody;
  /** True when the operation reads query parameters. */
  readonly query: boolean;
  /**
   * How the operation reads the header `Idempotency-Key`; absent when it does not. The value says what happens without
   * the header. `required`: the request is rejected. Then a repeat has the status 200, and a key of other content is a
   * 409. `content`: the content is the key, so an equal request is a repeat. `header`: no request is a repeat.
   * `state`: the service decides by the state of the object, and stores no key.
   */
  readonly keyed?: 'required' | 'content' | 'header' | 'state';
  /**
   * Points of the rate limit that one request costs; 1 when absent. More than 1 is for requests that read very many
   * rows.
   */
  readonly points?: number;
  /** True for a read that returns a secret. Like a write, it has entries in the audit log. */
  readonly reveals?: boolean;
  readonly success: {
    readonly status: number;
    readonly schema?: z.ZodType;
    /** Names of headers that only this operation has. */
    readonly headers?: readonly string[];
  };
  /** True when the operation is an addition, and not in the original interface document. */
  readonly addition: boolean;
  readonly summary: string;
  readonly description: string;
  readonly tag: keyof typeof TAGS;
  /** Error bodies of released versions that only this operation has, by status. */
  readonly errors: Readonly<Record<number, readonly z.ZodType[]>>;
}

/** A request body. It is required and has at most 1 MiB, unless the options say otherwise. */
export const body = (schema: z.ZodType, o: Partial<OperationBody> = {}): OperationBody => ({
  schema,
  required: true,
  maxBytes: BODY_BYTES_MAX,
  ...o,
});
/** The values that all webhook operations share. */
export const webhookRules = {
  scopes: ['developer_tools'],
  credentials: 'bearer-or-api-key',
  forbidden: 'errors-401',
  query: false,
  tag: 'Webhooks',
} as const;
/** The values that all operations for API keys share. */
export const keyRules = {
  credentials: 'api-key',
  forbidden: 'errors-401',
  query: false,
  addition: false,
} as const;

/** The values that all operations of `returns:read`, `returns:submit` and `warehouse` share. */
export const returnsRules = {
  ...keyRules,
  credentials: 'bearer-or-api-key',
  addition: true,
} as const;

/** As {@link returnsRules}, for the operations that only keys with the scope `returns` opened before. */
export const earlierReturnsRules = {
  ...returnsRules,
  earlierKeysFirst: true,
  addition: false,
} as const;

/** The values that all operations of label providers share. */
export const labelRules = {
  scopes: ['labels:write'],
  credentials: 'bearer-or-api-key',
  forbidden: 'errors-401',
  query: false,
  addition: true,
  tag: 'Labels',
} as const;

/** The values of the operation of gift-card providers. */
export const giftCardRules = {
  ...labelRules,
  scopes: ['giftcards:write'],
  tag: 'Gift cards',
} as const;
