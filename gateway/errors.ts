import { ConnectError } from '@connectrpc/connect';
import { ErrorReason as Reason } from '../proto/gen/rms/common/v1/error_pb.ts';
import { PROBLEM_CODES as CODE, type PublicError } from '../services/contract/errors.ts';
import type { Operation, OperationId } from '../services/contract/operation.ts';
import {
  fieldOf,
  isExhausted,
  isOverloaded,
  isUnavailable,
  reasonOf,
} from '../services/platform/errors.ts';
import { isOutage } from '../services/platform/outage.ts';
import { KeySetUnavailable } from './auth/partner-tokens.ts';

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

type Problem = PublicError['problem'];

/** An error with the common body `{message, errors: {}}`. */
export function messageError(
  status: number,
  code: string,
  o: { title: string; detail: string; errors?: NonNullable<Problem['errors']> },
): PublicError {
  return {
    status,
    body: { message: o.detail, errors: {} },
    problem: { code, title: o.title, detail: o.detail, ...(o.errors && { errors: o.errors }) },
  };
}

export function unknownVersion(detail: string): HttpError {
  return new HttpError(messageError(404, CODE.unknownVersion, { title: 'Not Found', detail }));
}

export function unknownPath(): HttpError {
  const detail = 'There is nothing at this path.';
  return new HttpError(messageError(404, CODE.notFound, { title: 'Not Found', detail }));
}

export function methodNotAllowed(allow: string): HttpError {
  const detail = `This path allows ${allow}.`;
  const error = messageError(405, CODE.methodNotAllowed, { title: 'Method Not Allowed', detail });
  return new HttpError(error, { headers: { Allow: allow } });
}

/** Interface: Errors, every REST endpoint. */
export function unauthorized(challenge: string): HttpError {
  const detail = 'Unauthorized.';
  return new HttpError(
    {
      status: 401,
      body: { errors: detail },
      problem: { code: CODE.unauthorized, title: 'Unauthorized', detail },
    },
    { headers: { 'WWW-Authenticate': challenge } },
  );
}

/** Interface: Errors, dispositioning. */
export function forbidden(challenge: string): HttpError {
  const detail = 'This action is unauthorized.';
  return new HttpError(
    {
      status: 403,
      body: { message: detail },
      problem: { code: CODE.forbidden, title: 'Forbidden', detail },
    },
    { headers: { 'WWW-Authenticate': challenge } },
  );
}

export function rateLimited(retryAfterS: number): HttpError {
  const detail = `Too many requests. Try again in ${retryAfterS} s.`;
  const error = messageError(429, CODE.rateLimited, { title: 'Too Many Requests', detail });
  return new HttpError(error, { headers: { 'Retry-After': String(retryAfterS) } });
}

/** `Retry-After` when a caller has too many bytes in memory. Seconds. */
const BODIES_RETRY_S = 1;

/** The caller has used up its memory budget for request bodies or responses. */
export function tooManyBytes(of: 'bodies' | 'answers'): HttpError {
  const detail =
    of === 'bodies'
      ? 'Too many bytes are being sent with this credential at the same time. Send fewer at a time.'
      : 'Too many bytes of responses are waiting for you to read them. Read them, and send fewer requests at a time.';
  const error = messageError(429, CODE.rateLimited, { title: 'Too Many Requests', detail });
  return new HttpError(error, { headers: { 'Retry-After': String(BODIES_RETRY_S) } });
}

export function unsupportedMediaType(detail: string): HttpError {
  const title = 'Unsupported Media Type';
  return new HttpError(messageError(415, CODE.unsupportedMediaType, { title, detail }));
}

export function tooLarge(maxBytes: number): HttpError {
  const detail = `The request body must be at most ${maxBytes / 1024 / 1024} MiB.`;
  return new HttpError(messageError(413, CODE.tooLarge, { title: 'Content Too Large', detail }));
}

/** The body arrives more slowly than the minimum rate. */
export function tooSlow(): HttpError {
  const detail = 'The request took too long to arrive.';
  const title = 'Request Timeout';
  return new HttpError(messageError(408, CODE.badRequest, { title, detail }));
}

export function badBody(detail: string): HttpError {
  return new HttpError(messageError(400, CODE.badRequest, { title: 'Bad Request', detail }));
}

/** RFC 9112, 3.2: an HTTP/1.1 request must have a Host header. */
export function noHost(): HttpError {
  return badBody('The request names no host.');
}

/** RFC 9112, 3.2: a request must not have two Host headers; a proxy may have checked the other one. */
export function manyHosts(): HttpError {
  return badBody('The request names its host more than once.');
}

export function invalid(detail: string, errors: NonNullable<Problem['errors']>): HttpError {
  return new HttpError(
    messageError(422, CODE.invalid, { title: 'Unprocessable Content', detail, errors }),
  );
}

/** The 404 that the interface defines for the operation. */
export function notFound(operation: Operation): HttpError {
  return operation.notFound ? new HttpError(operation.notFound) : unknownPath();
}

export function unavailable(cause: unknown): HttpError {
  const detail = 'The service is not available at the moment. Try again shortly.';
  const error = messageError(503, CODE.unavailable, { title: 'Service Unavailable', detail });
  return new HttpError(error, { headers: { 'Retry-After': String(RETRY_AFTER_S) }, cause });
}

/** Largest `Retry-After` when a request is shed because of overload. Seconds. */
const MAX_LOAD_RETRY_S = 3;

/** Too many requests are in flight, so the request was not begun. `Retry-After` is random, to spread the retries. */
export function overloaded(cause?: unknown): HttpError {
  const detail = 'There are too many requests at the moment. Try again shortly.';
  const error = messageError(503, CODE.unavailable, { title: 'Service Unavailable', detail });
  const headers = { 'Retry-After': String(loadRetryAfterS()) };
  return new HttpError(error, { headers, cause });
}

/** A random `Retry-After`. Whole seconds. */
export function loadRetryAfterS(): number {
  return 1 + Math.floor(Math.random() * MAX_LOAD_RETRY_S);
}

/** An unexpected error. The response contains only the request id, with which operators find the cause in the logs. */
export function internalError(requestId: string, cause: unknown): HttpError {
  const detail = `Something went wrong on our side. Quote the request id ${requestId} to support.`;
  const title = 'Internal Server Error';
  return new HttpError(messageError(500, CODE.internal, { title, detail }), { cause });
}

/**
 * Converts any error to a REST response.
 *
 * An error of the gateway is returned unchanged. The reason of a service's error is translated for the operation; callers
 * see its text only for some reasons. An unavailable service becomes a 503, and any other error a 500.
 */
export function toHttpError(error: unknown, operation: Operation, requestId: string): HttpError {
  if (error instanceof HttpError) return error;
  if (isOverloaded(error)) return overloaded(error);
  const reason = reasonOf(error);
  const translated = reason === undefined ? undefined : translate(reason, error, operation);
  if (translated) return new HttpError(translated, { cause: error });
  const isTransient = isUnavailable(error) || isOutage(error) || isExhausted(error);
  if (isTransient || error instanceof KeySetUnavailable) {
    return unavailable(error);
  }
  // The shop was created only in part. When an operator runs `shop create` again, the request succeeds.
  if (reason === Reason.SHOP_NOT_CONFIGURED) return unavailable(error);
  return internalError(requestId, error);
}

const WEBHOOK_WRITES: ReadonlySet<OperationId> = new Set(['createWebhook', 'updateWebhook']);
const LABEL_WRITES: ReadonlySet<OperationId> = new Set(['recordLabel', 'updateLabel']);

function translate(reason: Reason, error: unknown, operation: Operation): PublicError | undefined {
  switch (reason) {
    case Reason.INVALID_FIELD:
      if (isPathId(fieldOf(error))) return operation.notFound;
      return invalidFrom(error);
    case Reason.LINE_ITEM_NOT_FOUND:
    case Reason.RETURN_TOO_LARGE:
      return invalidFrom(error);
    case Reason.RETURN_NOT_FOUND:
    case Reason.DESTINATION_NOT_FOUND:
    case Reason.SUBSCRIPTION_NOT_FOUND:
    case Reason.DELIVERY_NOT_FOUND:
    case Reason.LABEL_NOT_FOUND:
      return operation.notFound;
    case Reason.FRAUD_REPORT_EXISTS:
      return reportExists();
    case Reason.WEBHOOK_URL_REFUSED:
      return webhookRejected(messageOf(error));
    case Reason.STATE_FORBIDS:
      if (operation.id === 'replayDelivery') return notReplayable(messageOf(error));
      return LABEL_WRITES.has(operation.id) ? conflict(messageOf(error)) : undefined;
    case Reason.IDEMPOTENCY_CONFLICT:
      return operation.keyed ? conflict('Idempotency-Key was used with other content') : undefined;
    case Reason.QUOTA_EXCEEDED:
      return WEBHOOK_WRITES.has(operation.id) ? webhookRejected(messageOf(error)) : undefined;
    default:
      return undefined;
  }
}

/** The request fields that contain ids from the path. If a service rejects such an id, the object does not exist. */
const PATH_ID_FIELDS: ReadonlySet<string> = new Set([
  'subscription_id',
  'label_id',
  'destination_id',
  'return_id',
  'order_id',
  'order_name',
  'provider_order_id',
]);

function isPathId(field: string | undefined): boolean {
  return field !== undefined && PATH_ID_FIELDS.has(field);
}

function invalidFrom(error: unknown): PublicError {
  const detail = sentence(messageOf(error));
  const errors = [{ field: fieldOf(error) ?? 'body', message: detail }];
  return messageError(422, CODE.invalid, { title: 'Unprocessable Content', detail, errors });
}

function reportExists(): PublicError {
  const detail = 'A fraud report already exists for this return.';
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.fraudReportExists, title: 'Conflict', detail },
  };
}

/** The state of the object does not allow the request, or the key has another content. */
function conflict(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.conflict, title: 'Conflict', detail },
  };
}

function webhookRejected(text: string): PublicError {
  const detail = sentence(text);
  return {
    status: 422,
    body: { errors: { code: CODE.webhookRefused, message: detail } },
    problem: { code: CODE.webhookRefused, title: 'Unprocessable Content', detail },
  };
}

function notReplayable(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { code: CODE.notReplayable, message: detail } },
    problem: { code: CODE.notReplayable, title: 'Conflict', detail },
  };
}

/** The message of an error, without the code that Connect puts before it. */
function messageOf(error: unknown): string {
  if (error instanceof ConnectError) return error.rawMessage;
  return error instanceof Error ? error.message : '';
}

function capitalized(text: string): string {
  return text.replace(/^./, (first) => first.toUpperCase());
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
