import { createHash, randomUUID } from 'node:crypto';
import type { Request, Response } from 'express';
import {
  IDEMPOTENCY_KEY_MAX,
  JSON_DEPTH_MAX,
  JSON_ENTRIES_MAX,
} from '../../services/contract/limits.ts';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import {
  ignoredFields,
  ignoredParameters,
  mistypedParameter,
  requiredFields,
} from '../../services/contract/validate/ignored.ts';
import {
  type BodyOf,
  type QueryOf,
  validateBody,
  validateQuery,
} from '../../services/contract/validate/validate.ts';
import { UNSTABLE } from '../../services/contract/versions.ts';
import { ID_RULE, MAX_ID, parseId } from '../../services/platform/values/ids.ts';
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

const NAME = 'Idempotency-Key';

/** Visible ASCII and spaces, which an HTTP field transports unchanged. */
const KEY = new RegExp(`^[\\x20-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`);
/** A string of a structured field (RFC 9651, 3.3.3). A double quote or backslash in it has a backslash before it. */
const QUOTED = /^"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;

/**
 * The content of a request. It identifies the request when the caller sends no key and the operation treats equal
 * requests as repeats.
 */
interface KeyedContent {
  readonly id: bigint;
  /** The validated body. */
  readonly body: unknown;
}

/**
 * Returns the idempotency key for the call to the service. It is made from the header `Idempotency-Key`. An operation
 * without `keyed` has an empty key.
 *
 * When the header is absent, `keyed` of the operation decides:
 *
 * - `required`: the request is rejected.
 * - `content`: the key is made from the content, so that an equal request has no second effect.
 * - `header`: the key is new, and covers only the retries of the call to the service.
 * - `state`: the key is empty.
 *
 * The prefix separates the keys of REST from those of internal callers. The hash keeps the caller's own text out of the
 * database.
 *
 * The service stores the key for 90 days (`services/platform/values/idempotency.ts`), or as long as the cart or replay that it
 * created. A key that was used with other content is a 422 (`keyOfOtherContent`), or a 409 where it is
 * required (`keyReused`).
 *
 * draft-ietf-httpapi-idempotency-key-header has the key in double quotes. Many clients omit them, so `"a"` and `a` are
 * the same key.
 *
 * @throws HttpError 422 for a key that is empty, longer than 200 characters, or not ASCII, and for an absent key that is
 *   required.
 */
export function idempotencyKeyOf(
  header: string | readonly string[] | undefined,
  { keyed }: Pick<Operation, 'keyed'>,
  content: KeyedContent,
): string {
  if (keyed === undefined) return '';
  if (header === undefined) return keyWithoutHeader(keyed, content);
  const key = keyIn(String(header).trim());
  if (key === undefined || !KEY.test(key)) {
    const message = `${NAME} must have 1 to ${IDEMPOTENCY_KEY_MAX} ASCII characters.`;
    throw invalid(message, [{ field: NAME, message }]);
  }
  return keyFrom('header', key);
}

function keyWithoutHeader(keyed: NonNullable<Operation['keyed']>, content: KeyedContent): string {
  switch (keyed) {
    case 'required': {
      const message = `${NAME} is required.`;
      throw invalid(message, [{ field: NAME, message }]);
    }
    case 'content':
      return keyFrom('content', `${content.id} ${JSON.stringify(content.body)}`);
    case 'header':
      return `rest:call:${randomUUID()}`;
    case 'state':
      return '';
    default:
      return keyed satisfies never;
  }
}

/** Returns the key without its quotes; undefined when it begins with a quote and is not a valid quoted string. */
function keyIn(field: string): string | undefined {
  if (!field.startsWith('"')) return field;
  return QUOTED.exec(field)?.[1]?.replace(/\\(["\\])/g, '$1');
}

function keyFrom(source: 'content' | 'header', text: string): string {
  return `rest:${source}:${createHash('sha256').update(text).digest('base64url')}`;
}
