import { NOT_FOUND, type PublicError } from '../../services/contract/errors.ts';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import { DETAILS_PARAMETERS } from '../../services/contract/resources/details-query.ts';
import { parseId } from '../../services/platform/ids.ts';
import type { Caller } from '../auth/caller.ts';
import { queryOf } from '../http/query.ts';

/** The id of a delivery. */
export const DELIVERY_ID = /^msg_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The ids and parameters of a request, as the client sent them. */
interface Named {
  readonly params: Readonly<Record<string, string | string[] | undefined>>;
  /** The target of the request, with its query. */
  readonly url: string;
}

interface Missing {
  /** The id in the path. */
  readonly id: string;
  readonly deliveryId: string;
  /** The parameter of return details that selects the return. */
  readonly selector: string;
}

const RETURNS = 'list them with GET /warehouse/returns?archived=include';
const RETURN = ({ id }: Missing) => `no return ${id}: ${RETURNS}`;

type Sentence = (missing: Missing) => string;

/** What does not exist, and where to find an id that does, for each kind of object. */
const SENTENCES: ReadonlyMap<PublicError, Sentence> = new Map<PublicError, Sentence>([
  [NOT_FOUND.webhook, ({ id }) => `no webhook ${id}: list them with GET /webhooks`],
  [
    NOT_FOUND.delivery,
    ({ id, deliveryId }) =>
      `no delivery ${deliveryId} of webhook ${id}: list them with GET /webhooks/${id}/deliveries`,
  ],
  [NOT_FOUND.replay, ({ id }) => `no replay ${id}: list them with GET /webhook-replays`],
  [NOT_FOUND.destination, ({ id }) => `no destination ${id}: list them with GET /destinations`],
  [NOT_FOUND.returnDetails, ({ selector }) => `no return with this ${selector}: ${RETURNS}`],
  [NOT_FOUND.return, RETURN],
  [NOT_FOUND.processReturn, RETURN],
  [
    NOT_FOUND.label,
    ({ id }) => `no label ${id}: POST /returns/{id}/labels returned the id of each label`,
  ],
  [NOT_FOUND.cart, () => 'no cart with this token: carts expire, so create it again'],
]);

/**
 * What to look up when the shop has no such object, in ASCII. Undefined for an operation without a 404 of its own, and
 * for a malformed id, which has another hint.
 */
export function missingHint(
  { notFound }: Operation,
  { scheme, sandbox }: Pick<Caller, 'scheme' | 'sandbox'>,
  { params, url }: Named,
): string | undefined {
  const { id, delivery_id: delivery } = params;
  const isMalformed =
    (id !== undefined && parseId(String(id)) === undefined) ||
    (delivery !== undefined && !DELIVERY_ID.test(String(delivery)));
  const sentence = notFound && SENTENCES.get(notFound);
  if (isMalformed || !sentence) return undefined;
  const query = queryOf({ url });
  const selector = DETAILS_PARAMETERS.find((name) => query.has(name)) ?? 'id';
  const shop = `the ${sandbox ? 'sandbox ' : ''}shop of this ${scheme === 'bearer' ? 'token' : 'key'}`;
  return `${shop} has ${sentence({ id: String(id), deliveryId: String(delivery), selector })}`;
}

/** Operations on a webhook that fail with 409 only when the webhook is inactive. */
const NEEDS_ACTIVE: ReadonlySet<OperationId> = new Set(['testWebhook', 'retryDeliveries']);

/** What to do so that the state no longer forbids the request, in ASCII; undefined when the message already says it. */
export function conflictHint(
  { id: operation }: Operation,
  { status }: PublicError,
  { params: { id } }: Named,
): string | undefined {
  return status === 409 && NEEDS_ACTIVE.has(operation)
    ? `activate it first: PUT /webhooks/${id} with its fields and status active`
    : undefined;
}
