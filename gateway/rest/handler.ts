import type { OperationId } from '../../services/contract/operation.ts';
import type { BodyOf, QueryOf } from '../../services/contract/validate.ts';
import type { ActionContext } from '../actions/context.ts';

/** A request that has passed all checks. */
export interface RestRequest<K extends OperationId> {
  readonly context: ActionContext;
  /** The id in the path; 0 when there is none. */
  readonly id: bigint;
  /** The `webhook-id` in the path; empty when there is none. */
  readonly deliveryId: string;
  /** The token of a cart in the path, a secret; empty when there is none. */
  readonly token: string;
  /** The idempotency key of a keyed operation; empty for others. */
  readonly idempotencyKey: string;
  readonly body: BodyOf<K>;
  readonly query: QueryOf<K>;
}

/** Returns the response body in the newest version; undefined when the operation has no response body. */
type RestHandler<K extends OperationId> = (request: RestRequest<K>) => Promise<unknown>;

/** A handler of each operation. */
export type Handlers = { readonly [K in OperationId]: RestHandler<K> };
