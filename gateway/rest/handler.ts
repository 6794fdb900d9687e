import type { ServerResponse } from 'node:http';
import type { OperationId } from '../../services/contract/operation.ts';
import { PAYLOAD_VERSION_HEADER } from '../../services/contract/resources/webhook.ts';
import type { BodyOf, QueryOf } from '../../services/contract/validate.ts';
import type { ActionContext } from '../actions/context.ts';
import { addHint } from '../http/help-headers.ts';

/** Headers that a handler adds to the response, for values that the interface does not allow in the body. */
export interface ResponseHeaders {
  /** Names the API version in which later events are sent, such as `2026-10`. */
  payloadVersion(version: string): void;
  /** Tells people what the caller probably wanted. @param text in ASCII. */
  hint(text: string): void;
}

/** A request that has passed all checks. */
export interface RestRequest<K extends OperationId> {
  readonly context: ActionContext;
  /** The id in the path; 0 when there is none. */
  readonly id: bigint;
  /** The `webhook-id` in the path; empty when there is none. */
  readonly deliveryId: string;
  /** The token of a cart in the path, a secret; empty when there is none. */
  readonly token: string;
  /** The idempotency key for the service; empty for operations without one. */
  readonly idempotencyKey: string;
  readonly body: BodyOf<K>;
  readonly query: QueryOf<K>;
  readonly headers: ResponseHeaders;
}

/** Returns the response body in the newest version; undefined when the operation has no response body. */
type RestHandler<K extends OperationId> = (request: RestRequest<K>) => Promise<unknown>;

/** A handler of each operation. */
export type Handlers = { readonly [K in OperationId]: RestHandler<K> };

/** The headers that a handler adds to a response. */
export function responseHeaders(res: ServerResponse): ResponseHeaders {
  return {
    payloadVersion: (version) => res.setHeader(PAYLOAD_VERSION_HEADER, version),
    hint: (text) => addHint(res, text),
  };
}
