import type { Request, Response } from 'express';
import {
  ignoredFields,
  ignoredParameters,
  mistypedParameter,
  requiredFields,
} from '../../services/contract/ignored.ts';
import { JSON_DEPTH_MAX, JSON_ENTRIES_MAX } from '../../services/contract/limits.ts';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import {
  type BodyOf,
  type QueryOf,
  validateBody,
  validateQuery,
} from '../../services/contract/validate.ts';
import { UNSTABLE } from '../../services/contract/versions.ts';
import { ID_RULE, MAX_ID, parseId } from '../../services/platform/ids.ts';
import type { BodyCharge } from '../auth/body-charge.ts';
import { invalid, notFound } from '../errors.ts';
import type { ReservedBytes } from '../http/body-budget.ts';
import type { Exchange } from '../http/exchange.ts';
import { addHint } from '../http/help-headers.ts';
import type { Slot } from '../http/in-flight.ts';
import { parseJsonObject } from '../http/json.ts';
import { queryOf } from '../http/query.ts';
import { hasContent, receiveBody } from '../http/receive-body.ts';

/** A request for an operation. */
export interface Incoming {
  readonly operation: Operation;
  /** The version that serves the request. */
  readonly version: string;
  readonly req: Request;
  readonly res: Response;
  readonly exchange: Exchange;
}

/** A request that has taken a slot. */
export interface WithSlot extends Incoming {
  readonly slot: Slot;
}

/** A hint, because a client that sends a filter in an ignored body gets more than it wanted. */
const NO_BODY = 'this operation has no body, and the one that was sent was ignored';

const BOUNDS = { maxDepth: JSON_DEPTH_MAX, maxEntries: JSON_ENTRIES_MAX };

/**
 * Reads the body, charges for it, and validates it. A hint in the response names fields that are ignored.
 *
 * @throws HttpError 400, 408, 413, 415, 422, 429 or 503.
 */
export async function readInput(
  { operation, version, req, res, exchange, slot }: WithSlot,
  o: { readonly charge: BodyCharge; readonly reserved: ReservedBytes },
): Promise<BodyOf<OperationId>> {
  const { maxBytes } = operation.body ?? {};
  if (maxBytes === undefined && hasContent(req)) addHint(res, NO_BODY);
  const bytes =
    maxBytes === undefined
      ? undefined
      : await slot.during(() => receiveBody(req, res, { ...o, maxBytes, meter: exchange }));
  const exactNumbers = operation.body?.exactNumbers ?? false;
  const json = bytes && parseJsonObject(bytes, { ...BOUNDS, exactNumbers });
  for (const hint of ignoredFields(operation.id, json)) addHint(res, hint);
  const result = validateBody(operation.id, version, json);
  if (result.ok) return result.value;
  // In some APIs an update keeps every field that it does not contain. In this API an update keeps only optional
  // fields.
  if (operation.method === 'PUT' && /^\w+ is required\.$/.test(result.message)) {
    const needed = requiredFields(operation.id);
    addHint(res, `an update needs ${needed.length > 1 ? 'all of ' : ''}${needed.join(', ')}`);
  }
  throw invalid(result.message, result.fields);
}

/**
 * Reads and validates the query. A hint in the response names parameters that are ignored. The version `unstable`
 * rejects those that look like a filter of the list.
 *
 * @throws HttpError 422, or 404 when no object can have the id in the query.
 */
export function readQuery(
  operation: Operation,
  version: string,
  { target, res }: { readonly target: string; readonly res: Response },
): QueryOf<OperationId> {
  const query = queryOf({ url: target });
  const mistyped = version === UNSTABLE ? mistypedParameter(operation.id, query) : undefined;
  if (mistyped) {
    const { name: field, meant } = mistyped;
    const message = `${field} is no parameter of this operation: did you mean ${meant}?`;
    throw invalid(message, [{ field, message }]);
  }
  for (const hint of ignoredParameters(operation.id, query)) addHint(res, hint);
  const result = validateQuery(operation.id, version, query);
  if (result.ok) return result.value;
  if (result.notFound) {
    addHint(res, result.message.replace(/\.$/, ''));
    throw notFound(operation);
  }
  throw invalid(result.message, result.fields);
}

/**
 * Parses the id in the path. A malformed id gets a 404, but only after all other checks. The URL in the body of a
 * webhook update is checked later, by the webhooks service. So for a webhook update this returns an id that no webhook
 * has, and the service answers.
 */
export function readPathId(
  operation: Operation,
  text: string | string[] | undefined,
  res: Response,
): bigint {
  const id = text === undefined ? 0n : parseId(String(text));
  if (id !== undefined) return id;
  addHint(res, `the id in the path ${ID_RULE}`);
  if (operation.id === 'updateWebhook') return MAX_ID;
  throw notFound(operation);
}
