import type { z } from 'zod';
import { blank } from '../platform/text.ts';
import { isObject } from './json-object.ts';
import { OPERATIONS, type OperationId } from './operations.ts';
import { printable } from './printable.ts';
import type { CartBody } from './resources/cart.ts';
import {
  type DeliveriesQuery,
  type DeliveriesQueryResult,
  readDeliveriesQuery,
} from './resources/deliveries-query.ts';
import type { DestinationBody } from './resources/destination.ts';
import {
  type DetailsQuery,
  type DetailsQueryResult,
  parseId,
  readDetailsQuery,
} from './resources/details-query.ts';
import type { AssessBody } from './resources/disposition.ts';
import type { FraudReportBody } from './resources/fraud-report.ts';
import type { ProcessBody } from './resources/process.ts';
import type { WebhookBody } from './resources/webhook.ts';

/** The validated body of each operation. Optional fields may be null, which means absent. */
export interface Bodies {
  readonly createWebhook: WebhookBody;
  readonly updateWebhook: WebhookBody;
  readonly assessDispositions: AssessBody;
  readonly updateDestination: DestinationBody;
  readonly createFraudReport: FraudReportBody;
  readonly processReturn: ProcessBody;
  readonly createCart: CartBody;
}
export type BodyOf<K extends OperationId> = K extends keyof Bodies ? Bodies[K] : undefined;

/** The validated query of each operation. */
export interface Queries {
  readonly getReturnDetails: DetailsQuery;
  readonly listDeliveries: DeliveriesQuery;
}
export type QueryOf<K extends OperationId> = K extends keyof Queries ? Queries[K] : undefined;

export interface FieldFault {
  readonly field: string;
  readonly message: string;
}

/** A refusal: `message` is the whole sentence of the first fault, `fields` all of them. */
export interface Invalid {
  readonly ok: false;
  readonly message: string;
  readonly fields: readonly FieldFault[];
}

const FIELDS_MAX = 50;
const FIELD_NAME_MAX = 200;

/**
 * Validates a parsed JSON body with the operation's schema in `version` (requests are the same in all released
 * versions). An absent body is `{}` where the operation allows it. Never throws.
 */
export function validateBody<K extends OperationId>(
  operation: K,
  _version: string,
  json: unknown,
): { readonly ok: true; readonly value: BodyOf<K> } | Invalid {
  const body = OPERATIONS.find(({ id }) => id === operation)?.body;
  if (!body) return { ok: true, value: undefined as BodyOf<K> };
  if (json === undefined && body.required)
    return invalid([{ field: 'body', message: 'is required' }]);
  const given = json === undefined ? {} : json;
  if (!isObject(given)) return invalid([{ field: 'body', message: 'must be an object' }]);
  const parsed = body.schema.safeParse(given);
  // The table pairs each operation with the schema whose type `Bodies` names.
  if (parsed.success) return { ok: true, value: parsed.data as BodyOf<K> };
  return invalid(
    parsed.error.issues.slice(0, FIELDS_MAX).map(({ path, message }) => ({
      field: fieldName(path),
      message,
    })),
  );
}

/**
 * Validates a query. `notFound` means that no object can have its id (`return_id=abc`): after all other checks the
 * operation answers its own 404.
 */
export function validateQuery<K extends OperationId>(
  operation: K,
  _version: string,
  query: URLSearchParams,
):
  | { readonly ok: true; readonly value: QueryOf<K> }
  | { readonly ok: false; readonly notFound: true }
  | (Invalid & { readonly notFound?: never }) {
  const read = QUERIES.get(operation);
  if (!read) return { ok: true, value: undefined as QueryOf<K> };
  const result = read(query);
  // The table pairs each operation with the reader whose result `Queries` names.
  if (result.ok) return { ok: true, value: result.value as QueryOf<K> };
  if ('notFound' in result) return result;
  return invalid([{ field: result.field, message: result.rule }]);
}

type ReadQuery = (query: URLSearchParams) => DetailsQueryResult | DeliveriesQueryResult;

const QUERIES: ReadonlyMap<OperationId, ReadQuery> = new Map<OperationId, ReadQuery>([
  ['getReturnDetails', readDetailsQuery],
  ['listDeliveries', readDeliveriesQuery],
]);

/**
 * Reads a path id, already percent-decoded; undefined when no object can have it: the operation answers its own 404.
 */
export function parsePathId(segment: string): bigint | undefined {
  return parseId(segment);
}

function invalid(faults: readonly FieldFault[]): Invalid {
  const fields = faults.map(({ field, message }) => ({ field, message: `${field} ${message}.` }));
  return { ok: false, message: fields[0]?.message ?? 'The request is not valid.', fields };
}

/** Such as `items[0].note`. Long keys of the caller are cut, so that the answer stays small. */
function fieldName(path: z.core.$ZodIssue['path']): string {
  if (path.length === 0) return 'body';
  const name = path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    const key = blank(String(part)) ? JSON.stringify(part) : String(part);
    return text === '' ? key : `${text}.${key}`;
  }, '');
  return printable(name, FIELD_NAME_MAX);
}
