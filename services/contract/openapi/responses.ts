import { z } from 'zod';
import type { ZodOpenApiResponseObject } from 'zod-openapi';
import { PROBLEM_MEDIA_TYPE, problemDocument } from '../changes/change.ts';
import { NOT_FOUND, type PublicError } from '../errors.ts';
import type { NamedValue } from '../examples/example.ts';
import { EXAMPLES } from '../examples/examples.ts';
import { BODY_BYTES_MAX, DISPOSITIONS_BODY_BYTES_MAX } from '../limits.ts';
import type { Operation } from '../operation.ts';
import * as errors from '../public-errors.ts';
import * as shapes from '../resources/errors.ts';
import { shapeResponse } from '../shape.ts';
import { validateBody, validateQuery } from '../validate/validate.ts';
import { UNSTABLE } from '../versions.ts';
import { headerReferences } from './headers.ts';

// The errors in the examples of the OpenAPI documents. Each is an error that the service really returns.

const REQUEST_ID = '5f0c2a9e-8f6d-4b7e-9c61-2d1f7a3b4c5d';
const RETRY_AFTER_S = 5;

/** The errors that are the same in all operations, by their status. */
const COMMON_ERRORS: Readonly<Record<number, readonly PublicError[]>> = {
  400: [errors.badBody('The body must be JSON.')],
  401: [errors.unauthorized()],
  403: [errors.forbidden()],
  413: [errors.tooLarge(BODY_BYTES_MAX), errors.tooLarge(DISPOSITIONS_BODY_BYTES_MAX)],
  415: [errors.unsupportedMediaType('The body must be sent as application/json.')],
  429: [errors.rateLimited(RETRY_AFTER_S)],
  500: [errors.internalError(REQUEST_ID)],
  503: [errors.unavailable()],
};

/** The errors of an operation with this status. @throws Error when the operation has no example of one. */
function errorsOf(operation: Operation, status: number): readonly PublicError[] {
  const { conflict, rejected } = EXAMPLES[operation.id];
  const found: Readonly<Record<number, readonly (PublicError | undefined)[]>> = {
    404: [operation.notFound],
    409: [conflict],
    422: [validationError(operation), rejected],
  };
  const known = (found[status] ?? []).filter((error) => error !== undefined);
  if (known.length === 0) throw new Error(`${operation.id} has no example of ${status}`);
  return known;
}

/** The error that validation returns for the invalid body or query in the examples. */
function validationError({ id }: Operation): PublicError | undefined {
  const { invalid } = EXAMPLES[id];
  if (invalid === undefined) return undefined;
  const result =
    typeof invalid === 'string'
      ? validateQuery(id, '', new URLSearchParams(invalid))
      : validateBody(id, '', invalid);
  if (result.ok || ('notFound' in result && result.notFound))
    throw new Error(`the invalid example of ${id} is valid`);
  return errors.invalid(result.message, result.fields);
}

const PHRASES: Readonly<Record<number, string>> = {
  200: 'Done',
  201: 'Created',
  204: 'Done, without a body',
  400: 'The body is not JSON or not an object, nests deeper than 32, or has more than 100,000 entries, or more than 10,000 numbers such as `1.10` that are kept as text',
  401: 'The credential is missing, unknown, expired, revoked or lacks the scope',
  403: 'The credential lacks the scope',
  404: 'This shop has no such object',
  409: 'The current state of the object does not allow the request',
  413: 'The body is too large',
  415: 'The body is not application/json, or its encoding is unknown',
  422: 'A field is invalid; the message names it',
  429: 'Too many requests',
  500: 'Unexpected error; the message has the request id',
  503: 'A part of the service is temporarily unavailable',
};

const REPEATED = 'An earlier request with the same `Idempotency-Key` and content had this result';

/** The names of the error responses that operations share. */
const SHARED: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  413: 'BodyTooLarge',
  415: 'UnsupportedMediaType',
  429: 'RateLimited',
  500: 'InternalError',
  503: 'Unavailable',
};
const OF_BODY = [400, 413, 415];
const OF_EVERY_OPERATION = [401, 429, 500, 503];
/** The bodies of those responses that differ from the common error body. */
const OWN_SHAPES: Readonly<Record<number, z.ZodType>> = {
  401: shapes.unauthorized,
  403: shapes.forbidden,
};

/** The name of the shared response for each kind of 404. */
const NOT_FOUND_NAMES: Readonly<Record<keyof typeof NOT_FOUND, string>> = {
  webhook: 'WebhookNotFound',
  delivery: 'DeliveryNotFound',
  replay: 'ReplayNotFound',
  destination: 'DestinationNotFound',
  returnDetails: 'SelectedReturnNotFound',
  return: 'ReturnNotFound',
  arrivedReturn: 'ArrivedReturnNotFound',
  label: 'LabelNotFound',
  order: 'OrderNotFound',
  cart: 'CartNotFound',
  processReturn: 'ReturnToProcessNotFound',
};

type NamedResponse = [string, ZodOpenApiResponseObject];

/** The error responses that operations refer to. */
export function sharedResponses(
  operations: readonly Operation[],
  version: string,
): Record<string, ZodOpenApiResponseObject> {
  const unstable = version === UNSTABLE;
  const common = Object.entries(SHARED).map(([code, name]): NamedResponse => {
    const status = Number(code);
    const schemas = [OWN_SHAPES[status] ?? shapes.messageError];
    return [name, errorResponse({ status, schemas, unstable, examples: COMMON_ERRORS[status] })];
  });
  const notFound = operations.flatMap((operation): NamedResponse[] => {
    const name = notFoundName(operation);
    return name === undefined ? [] : [[name, ownError(operation, 404, unstable)]];
  });
  return Object.fromEntries([...common, ...notFound]);
}

/** The `responses` of an operation, in the form that zod-openapi takes. */
export function responsesOf(operation: Operation, version: string): Record<string, object> {
  const unstable = version === UNSTABLE;
  const { status } = operation.success;
  const statuses = new Set([
    ...(operation.body ? OF_BODY : []),
    ...OF_EVERY_OPERATION,
    ...Object.keys(operation.errors).map(Number),
  ]);
  const errors = [...statuses].map((code) => [code, errorOf(operation, code, unstable)]);
  const done = success(operation, version);
  const repeated =
    operation.keyed === 'required' ? [[200, { ...done, description: REPEATED }]] : [];
  return Object.fromEntries([[status, done], ...repeated, ...errors]);
}

function errorOf(operation: Operation, status: number, unstable: boolean): object {
  const name = status === 404 ? notFoundName(operation) : SHARED[status];
  if (name !== undefined) return { $ref: `#/components/responses/${name}` };
  return ownError(operation, status, unstable);
}

function notFoundName({ notFound }: Operation): string | undefined {
  const [kind] = Object.entries(NOT_FOUND).find(([, error]) => error === notFound) ?? [];
  return Object.entries(NOT_FOUND_NAMES).find(([name]) => name === kind)?.[1];
}

function success(
  { id, success: { status, schema, headers } }: Operation,
  version: string,
): ZodOpenApiResponseObject {
  const { response, responses } = EXAMPLES[id];
  const example = response && shapeResponse(version, id, response);
  const content = schema && { 'application/json': { schema, ...exampleKeys(example, responses) } };
  const unstable = version === UNSTABLE;
  return {
    ...described(status, unstable, content),
    headers: headerReferences(status, unstable, headers),
  };
}

function ownError(
  operation: Operation,
  status: number,
  unstable: boolean,
): ZodOpenApiResponseObject {
  const schemas = operation.errors[status] ?? [];
  return errorResponse({ status, schemas, unstable, examples: errorsOf(operation, status) });
}

function errorResponse(o: {
  readonly status: number;
  readonly schemas: readonly z.ZodType[];
  readonly unstable: boolean;
  readonly examples: readonly PublicError[] | undefined;
}): ZodOpenApiResponseObject {
  const { status, schemas, unstable, examples = [] } = o;
  const [only = shapes.messageError, ...others] = schemas;
  const released = others.length === 0 ? only : z.union(schemas);
  const schema = unstable ? shapes.problem : released;
  const media = unstable ? PROBLEM_MEDIA_TYPE : 'application/json';
  const content = { [media]: { schema, ...errorExamples(examples, unstable) } };
  return described(status, unstable, content);
}

function errorExamples(errors: readonly PublicError[], unstable: boolean): object {
  const named = errors.map((error, at): [string, NamedValue] => {
    const { code, detail } = error.problem;
    const isRepeated = errors.findIndex(({ problem }) => problem.code === code) < at;
    const value = unstable ? problemDocument(error) : error.body;
    return [isRepeated ? `${code}_${at + 1}` : code, { summary: detail, value }];
  });
  const [[, first] = [], ...others] = named;
  return exampleKeys(first?.value, others.length > 0 ? Object.fromEntries(named) : undefined);
}

function described(
  status: number,
  unstable: boolean,
  content: ZodOpenApiResponseObject['content'],
): ZodOpenApiResponseObject {
  return {
    description: PHRASES[status] ?? String(status),
    headers: headerReferences(status, unstable),
    ...(content ? { content } : {}),
  };
}

/** The keys of a media type that hold its examples: `example` for one, `examples` for several. */
export function exampleKeys(one: unknown, several?: Readonly<Record<string, NamedValue>>): object {
  if (several) return { examples: several };
  return one === undefined ? {} : { example: one };
}
