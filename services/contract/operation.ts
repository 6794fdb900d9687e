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
  | 'assessDispositions'
  | 'gradeItems'
  | 'listDestinations'
  | 'getDestination'
  | 'updateDestination'
  | 'listReturns'
  | 'getReturnDetails'
  | 'createFraudReport'
  | 'listEffects'
  | 'recordLabel'
  | 'updateLabel'
  | 'recordGiftCard'
  | 'processReturn'
  | 'createCart'
  | 'getCart';

export interface OperationBody {
  readonly schema: z.ZodType;
  /** When false an absent body counts as `{}`. */
  readonly required: boolean;
  /** The limit after decompression. */
  readonly maxBytes: number;
  /** Whether numbers are kept as they were sent. */
  readonly exactNumbers?: boolean;
}

export interface Operation {
  readonly id: OperationId;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** The path after the version segment; `{id}` is a path id, `{delivery_id}` a `webhook-id`, `{token}` the secret of a cart. */
  readonly path: string;
  readonly scope: Scope;
  /** `bearer-or-api-key`: `Authorization` when it is `Bearer`, else `X-Authorization`; `api-key`: only the latter. */
  readonly credentials: 'api-key' | 'bearer-or-api-key';
  /** The response to a valid credential without the scope. */
  readonly forbidden: 'message-403' | 'errors-401';
  /** The 404 of an id that does not exist in this shop; absent when the operation has no id. */
  readonly notFound?: PublicError;
  readonly body?: OperationBody;
  /** True when the operation reads query parameters. */
  readonly query: boolean;
  /**
   * How the operation reads the header `Idempotency-Key`. Without the header, `content`: the content is the key, so an
   * equal request is a repeat; `header`: every request counts; `state`: the service decides by the state of the object,
   * and stores no key.
   */
  readonly keyed?: 'content' | 'header' | 'state';
  /** Points of the rate limit that a request costs, 1 when absent: for requests that read very many rows. */
  readonly points?: number;
  /** True for a read that returns a secret. Like a write, it has entries in the audit log. */
  readonly reveals?: boolean;
  readonly success: {
    readonly status: number;
    readonly schema?: z.ZodType;
    /** Names of headers that only this operation has. */
    readonly headers?: readonly string[];
  };
  /** True for an addition to the interface document. */
  readonly addition: boolean;
  readonly summary: string;
  readonly description: string;
  readonly tag: string;
  /** Error bodies that only this operation has, by status, in released versions. */
  readonly errors: Readonly<Record<number, readonly z.ZodType[]>>;
}

/** A body that is required and has at most 1 MiB, unless the options say otherwise. */
export const body = (schema: z.ZodType, o: Partial<OperationBody> = {}): OperationBody => ({
  schema,
  required: true,
  maxBytes: BODY_BYTES_MAX,
  ...o,
});
/** What the webhook operations have in common. */
export const webhookRules = {
  scope: 'developer_tools',
  credentials: 'bearer-or-api-key',
  forbidden: 'errors-401',
  query: false,
  tag: 'Webhooks',
} as const;
/** What the operations for API keys have in common. */
export const keyRules = {
  credentials: 'api-key',
  forbidden: 'errors-401',
  query: false,
  addition: false,
} as const;

/** What the operations of label providers have in common. */
export const labelRules = {
  scope: 'labels:write',
  credentials: 'bearer-or-api-key',
  forbidden: 'errors-401',
  query: false,
  addition: true,
  tag: 'Labels',
} as const;

/** What the operation of gift-card providers has in common with them. */
export const giftCardRules = {
  ...labelRules,
  scope: 'giftcards:write',
  tag: 'Gift cards',
} as const;
