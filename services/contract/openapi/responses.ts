import { z } from 'zod';
import { PROBLEM_MEDIA_TYPE } from '../changes/unstable.ts';
import type { Operation } from '../operation.ts';
import * as shapes from '../resources/errors.ts';
import { commonHeaders, headersOf } from './headers.ts';

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

/** The error statuses of an operation, in their order, with the bodies of each. */
function errorsOf(operation: Operation): ReadonlyMap<number, readonly z.ZodType[]> {
  const message = [shapes.messageError];
  const ofBodies: [number, readonly z.ZodType[]][] = operation.body
    ? [400, 413, 415].map((status) => [status, message])
    : [];
  const own = Object.entries(operation.errors).map(
    ([status, schemas]): [number, readonly z.ZodType[]] => [Number(status), schemas],
  );
  const all: [number, readonly z.ZodType[]][] = [
    ...ofBodies,
    [401, [shapes.unauthorized]],
    ...own,
    ...[429, 500, 503].map((status): [number, readonly z.ZodType[]] => [status, message]),
  ];
  return new Map(all.sort(([left], [right]) => left - right));
}

/** The `responses` of an operation, for zod-openapi. */
export function responsesOf(operation: Operation, unstable: boolean): Record<string, object> {
  const { status, schema } = operation.success;
  const responses: Record<string, object> = {
    [status]: response(status, unstable, schema && { 'application/json': { schema } }),
  };
  for (const [code, schemas] of errorsOf(operation)) {
    responses[code] = response(code, unstable, unstable ? problemContent() : jsonContent(schemas));
  }
  return responses;
}

function response(status: number, unstable: boolean, content: object | undefined): object {
  return {
    description: PHRASES[status] ?? String(status),
    headers: { ...commonHeaders(unstable), ...headersOf(status) },
    ...(content ? { content } : {}),
  };
}

function jsonContent(schemas: readonly z.ZodType[]): object {
  const [only, ...others] = schemas;
  const schema = others.length === 0 ? only : z.union(schemas);
  return { 'application/json': { schema } };
}

function problemContent(): object {
  return { [PROBLEM_MEDIA_TYPE]: { schema: shapes.problem } };
}
