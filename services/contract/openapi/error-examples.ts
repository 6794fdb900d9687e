import type { PublicError } from '../errors.ts';
import { EXAMPLES } from '../examples/examples.ts';
import { BODY_BYTES_MAX, DISPOSITIONS_BODY_BYTES_MAX } from '../limits.ts';
import type { Operation } from '../operation.ts';
import * as errors from '../public-errors.ts';
import { validateBody, validateQuery } from '../validate.ts';

// The errors in the examples of the OpenAPI documents. Each is an error that the service really returns.

const REQUEST_ID = '5f0c2a9e-8f6d-4b7e-9c61-2d1f7a3b4c5d';
const RETRY_AFTER_S = 5;

/** The errors that are the same in all operations, by their status. */
export const COMMON_ERRORS: Readonly<Record<number, readonly PublicError[]>> = {
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
export function errorsOf(operation: Operation, status: number): readonly PublicError[] {
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
