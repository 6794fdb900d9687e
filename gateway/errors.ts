import { PROBLEM_CODES as CODE, type PublicError } from '../services/contract/errors.ts';
import type { Operation } from '../services/contract/operation.ts';
import * as errors from '../services/contract/public-errors.ts';
import { HINT } from './http/help-headers.ts';

/** An error response, decided by the gateway or translated from a service's error. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly error: PublicError;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    error: PublicError,
    options: { headers?: Readonly<Record<string, string>>; cause?: unknown } = {},
  ) {
    super(error.problem.detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.error = error;
    this.headers = options.headers ?? {};
  }
}

/** `Retry-After` while a service is unavailable. Seconds. */
const RETRY_AFTER_S = 5;

export function unknownVersion(detail: string): HttpError {
  return new HttpError(
    errors.messageError(404, CODE.unknownVersion, { title: 'Not Found', detail }),
  );
}

export function unknownPath(): HttpError {
  const detail = 'There is nothing at this path.';
  return new HttpError(errors.messageError(404, CODE.notFound, { title: 'Not Found', detail }));
}

export function methodNotAllowed(allow: string): HttpError {
  const detail = `This path allows ${allow}.`;
  const error = errors.messageError(405, CODE.methodNotAllowed, {
    title: 'Method Not Allowed',
    detail,
  });
  return new HttpError(error, { headers: { Allow: allow } });
}

/** Interface: Errors, every REST endpoint. */
export function unauthorized(challenge: string): HttpError {
  return new HttpError(errors.unauthorized(), { headers: { 'WWW-Authenticate': challenge } });
}

/** Interface: Errors, dispositioning. */
export function forbidden(challenge: string): HttpError {
  return new HttpError(errors.forbidden(), { headers: { 'WWW-Authenticate': challenge } });
}

export function rateLimited(retryAfterS: number): HttpError {
  return new HttpError(errors.rateLimited(retryAfterS), {
    headers: { 'Retry-After': String(retryAfterS) },
  });
}

/** `Retry-After` when a caller has too many bytes in memory. Seconds. */
const BODIES_RETRY_S = 1;

/** What a memory budget counts: request bodies of callers, bodies of received webhooks, or responses. */
export type BudgetOf = 'bodies' | 'webhooks' | 'answers';

const TOO_MANY_BYTES: Readonly<Record<BudgetOf, string>> = {
  bodies:
    'Too many bytes are being sent with this credential at the same time. Send fewer at a time.',
  webhooks:
    'Too many bytes are being sent from this address at the same time. Send fewer at a time.',
  answers:
    'Too many bytes of responses are waiting for you to read them. Read them, and send fewer requests at a time.',
};

/** The caller has used up its memory budget for request bodies or responses. */
export function tooManyBytes(of: BudgetOf): HttpError {
  const detail = TOO_MANY_BYTES[of];
  const error = errors.messageError(429, CODE.rateLimited, { title: 'Too Many Requests', detail });
  return new HttpError(error, { headers: { 'Retry-After': String(BODIES_RETRY_S) } });
}

export function unsupportedMediaType(detail: string): HttpError {
  return new HttpError(errors.unsupportedMediaType(detail));
}

export function tooLarge(maxBytes: number): HttpError {
  return new HttpError(errors.tooLarge(maxBytes));
}

/** The body arrives more slowly than the minimum rate. */
export function tooSlow(): HttpError {
  const detail = 'The request took too long to arrive.';
  const title = 'Request Timeout';
  return new HttpError(errors.messageError(408, CODE.badRequest, { title, detail }));
}

/** @param hint in ASCII: what to look at. */
export function badBody(detail: string, hint?: string): HttpError {
  const headers = hint === undefined ? {} : { [HINT]: hint };
  return new HttpError(errors.badBody(detail), { headers });
}

/** RFC 9112, 3.2: an HTTP/1.1 request must have a Host header. */
export function noHost(): HttpError {
  return badBody('The request names no host.');
}

/** RFC 9112, 3.2: a request must not have two Host headers; a proxy may have checked the other one. */
export function manyHosts(): HttpError {
  return badBody('The request names its host more than once.');
}

export function invalid(...about: Parameters<typeof errors.invalid>): HttpError {
  return new HttpError(errors.invalid(...about));
}

/** The 404 that the interface defines for the operation. */
export function notFound(operation: Operation): HttpError {
  return operation.notFound ? new HttpError(operation.notFound) : unknownPath();
}

export function unavailable(cause: unknown): HttpError {
  const headers = { 'Retry-After': String(RETRY_AFTER_S) };
  return new HttpError(errors.unavailable(), { headers, cause });
}

/** Largest `Retry-After` when a request is shed because of overload. Seconds. */
const MAX_LOAD_RETRY_S = 3;

/** Too many requests are in flight, so the request was not begun. `Retry-After` is random, to spread the retries. */
export function overloaded(cause?: unknown): HttpError {
  const detail = 'There are too many requests at the moment. Try again shortly.';
  const error = errors.messageError(503, CODE.unavailable, {
    title: 'Service Unavailable',
    detail,
  });
  const headers = { 'Retry-After': String(loadRetryAfterS()) };
  return new HttpError(error, { headers, cause });
}

/** A random `Retry-After`. Whole seconds. */
export function loadRetryAfterS(): number {
  return 1 + Math.floor(Math.random() * MAX_LOAD_RETRY_S);
}

/** An unexpected error. */
export function internalError(requestId: string, cause: unknown): HttpError {
  return new HttpError(errors.internalError(requestId), { cause });
}
