import { z } from 'zod';
import type { OperationId } from '../operation.ts';
import { OPERATIONS } from '../operations.ts';
import { EXPECTED_PARAMETERS } from '../resources/arrival.ts';
import { DELIVERIES_PARAMETERS } from '../resources/delivery.ts';
import { DETAILS_PARAMETERS } from '../resources/details-query.ts';
import { ELIGIBILITY_PARAMETERS } from '../resources/eligibility.ts';
import { withoutBrackets } from '../resources/query.ts';
import { RETURNS_LISTS, RETURNS_PARAMETERS } from '../resources/return-list.ts';
import { TIMELINE_PARAMETERS } from '../resources/timeline.ts';
import { REPLAYS_PARAMETERS } from '../resources/webhook-replay.ts';
import { isObject } from './json-object.ts';
import { mistypedOf, nearest } from './nearest.ts';

// Unknown fields and parameters are ignored. If a filter is mistyped, the operation then selects more than the caller
// wanted. So a header of the response names them.

/** The parameters of each operation that reads a query. */
export const PARAMETERS: Readonly<Partial<Record<OperationId, readonly string[]>>> = {
  listReturns: RETURNS_PARAMETERS,
  getReturnDetails: DETAILS_PARAMETERS,
  getEligibility: ELIGIBILITY_PARAMETERS,
  listDeliveries: DELIVERIES_PARAMETERS,
  listReplays: REPLAYS_PARAMETERS,
  getReturnTimeline: TIMELINE_PARAMETERS,
  listExpected: EXPECTED_PARAMETERS,
};

const NAMED_MAX = 3;
const NAME_MAX = 60;

/** One sentence for each of the first three fields of a body that the operation does not know, in ASCII. */
export function ignoredFields(operation: OperationId, body: unknown): string[] {
  const schema = OPERATIONS.find(({ id }) => id === operation)?.body?.schema;
  const sentences: string[] = [];
  for (const sentence of schema ? unknownIn(schema, body) : []) {
    sentences.push(sentence);
    if (sentences.length === NAMED_MAX) break;
  }
  return sentences;
}

/** The fields that the body of an operation must have. */
export function requiredFields(operation: OperationId): string[] {
  const schema = OPERATIONS.find(({ id }) => id === operation)?.body?.schema;
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries(schema.shape).flatMap(([name, field]) =>
    field instanceof z.ZodOptional ? [] : [name],
  );
}

/** One sentence for each of the first three parameters of a query that the operation does not know, in ASCII. */
export function ignoredParameters(operation: OperationId, query: URLSearchParams): string[] {
  const known = PARAMETERS[operation] ?? [];
  return unknownNames(operation, query)
    .slice(0, NAMED_MAX)
    .map((name) => sentence(name, { kind: 'parameter', known, path: '' }));
}

function unknownNames(operation: OperationId, query: URLSearchParams): string[] {
  return [...new Set(query.keys())].filter((name) => !isParameter(operation, name));
}

/** Whether an operation reads the parameter of this name. The names of lists may have brackets. */
export function isParameter(operation: OperationId, name: string): boolean {
  const lists = operation === 'listReturns' ? Object.keys(RETURNS_LISTS) : [];
  return (PARAMETERS[operation]?.includes(name) ?? false) || lists.includes(withoutBrackets(name));
}

/** An unknown parameter of a list that looks like a known one, such as `State`, `states` or `stat`. */
export interface Mistyped {
  readonly name: string;
  readonly meant: string;
}

/**
 * The first unknown parameter of a list that looks like a known one. The caller meant a filter, so the whole list would
 * be a wrong response.
 */
export function mistypedParameter(
  operation: OperationId,
  query: URLSearchParams,
): Mistyped | undefined {
  const known = operation === 'getReturnDetails' ? [] : (PARAMETERS[operation] ?? []);
  const found = unknownNames(operation, query).map((name) => ({
    name: shownName(name),
    meant: mistypedOf(withoutBrackets(name), known),
  }));
  return found.find((one): one is Mistyped => one.meant !== undefined);
}

/**
 * The unknown fields of a value. An object that is stored as a whole, such as the details of process return, has none.
 */
function* unknownIn(schema: z.core.$ZodType, value: unknown, path = ''): Generator<string> {
  const inner = unwrapped(schema);
  if (inner instanceof z.ZodArray && Array.isArray(value)) {
    for (const [at, entry] of value.entries()) {
      yield* unknownIn(inner.element, entry, `${path.slice(0, -1)}[${at}].`);
    }
  }
  if (!(inner instanceof z.ZodObject) || !isObject(value)) return;
  const known = Object.keys(inner.shape);
  for (const [name, entry] of Object.entries(value)) {
    const field = known.includes(name) ? inner.shape[name] : undefined;
    if (field) yield* unknownIn(field, entry, `${path}${name}.`);
    else yield sentence(name, { kind: 'field', known, path });
  }
}

function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  const isWrapper = schema instanceof z.ZodOptional || schema instanceof z.ZodNullable;
  return isWrapper ? unwrapped(schema.unwrap()) : schema;
}

function shownName(name: string): string {
  return encodeURIComponent(name.slice(0, NAME_MAX).toWellFormed());
}

function sentence(
  name: string,
  o: { readonly kind: string; readonly known: readonly string[]; readonly path: string },
): string {
  const shown = shownName(name);
  const meant = nearest(name, o.known);
  const question = meant === undefined ? '' : `; did you mean ${o.path}${meant}?`;
  return `${o.path}${shown} is no ${o.kind} of this operation and was ignored${question}`;
}
