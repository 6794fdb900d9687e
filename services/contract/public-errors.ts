import { PROBLEM_CODES as CODE, type PublicError } from './errors.ts';

// The errors of the REST API that do not depend on the operation. The gateway returns them, and the OpenAPI documents
// have them as examples.

/** Maximum number of invalid fields in a problem document. */
const FIELDS_MAX = 50;

type FieldErrors = NonNullable<PublicError['problem']['errors']>;

/** An error with the common body `{message, errors: {}}`. */
export function messageError(
  status: number,
  code: string,
  o: { readonly title: string; readonly detail: string; readonly errors?: FieldErrors },
): PublicError {
  return {
    status,
    body: { message: o.detail, errors: {} },
    problem: { code, title: o.title, detail: o.detail, ...(o.errors && { errors: o.errors }) },
  };
}

/** The error for a missing or rejected credential (interface: Errors, every REST endpoint). */
export function unauthorized(): PublicError {
  const detail = 'Unauthorized.';
  return {
    status: 401,
    body: { errors: detail },
    problem: { code: CODE.unauthorized, title: 'Unauthorized', detail },
  };
}

/** The error for a credential without the scope (interface: Errors, dispositioning). */
export function forbidden(): PublicError {
  const detail = 'This action is unauthorized.';
  return {
    status: 403,
    body: { message: detail },
    problem: { code: CODE.forbidden, title: 'Forbidden', detail },
  };
}

export function badBody(detail: string): PublicError {
  return messageError(400, CODE.badRequest, { title: 'Bad Request', detail });
}

export function tooLarge(maxBytes: number): PublicError {
  const detail = `The request body must be at most ${maxBytes / 1024 / 1024} MiB.`;
  return messageError(413, CODE.tooLarge, { title: 'Content Too Large', detail });
}

export function unsupportedMediaType(detail: string): PublicError {
  const title = 'Unsupported Media Type';
  return messageError(415, CODE.unsupportedMediaType, { title, detail });
}

export function invalid(detail: string, errors: FieldErrors): PublicError {
  return messageError(422, CODE.invalid, { title: 'Unprocessable Content', detail, errors });
}

/**
 * The error for a field of the body, the query or the headers that breaks a rule. @param rule the text after the name
 * of the field.
 */
export function invalidField(field: string, rule: string): PublicError {
  const message = `${field} ${rule}.`;
  return invalid(message, [{ field, message }]);
}

/** The error for an `Idempotency-Key` that another request has used. The draft of the header requires 422. */
export function keyOfOtherContent(): PublicError {
  return invalidField(
    'Idempotency-Key',
    'was used with other content: send a new key, or the same content as before',
  );
}

/** The error for an `Idempotency-Key` that another request has used, where the operation requires the header. */
export function keyReused(): PublicError {
  const detail =
    'Idempotency-Key was used with other content: send a new key, or the same content as before.';
  return withCode(409, CODE.keyReused, { title: 'Conflict', detail });
}

/** The error for lines that cannot be returned. @param text from the service. */
export function notEligible(
  text: string,
  lines: readonly { readonly provider_line_item_id: number; readonly code: string }[],
): PublicError {
  const detail = sentence(capitalized(text));
  const title = 'Unprocessable Content';
  const fields = lines.map((line) => ({
    field: 'items',
    message: `order line ${line.provider_line_item_id}: ${line.code}`,
  }));
  const { problem, ...error } = withCode(422, CODE.notEligible, { title, detail, more: { lines } });
  return { ...error, problem: { ...problem, errors: fields.slice(0, FIELDS_MAX) } };
}

/** The error for a shop whose commerce platform cannot look up orders. */
export function noOrderLookUp(): PublicError {
  const detail = "The shop's commerce platform cannot look up orders.";
  return withCode(409, CODE.noOrderLookUp, { title: 'Conflict', detail });
}

/** An error with the body `{errors: {code, message}}`. */
function withCode(
  status: number,
  code: string,
  o: { readonly title: string; readonly detail: string; readonly more?: object },
): PublicError {
  const { title, detail, more = {} } = o;
  return {
    status,
    body: { errors: { code, message: detail, ...more } },
    problem: { code, title, detail },
  };
}

export function rateLimited(retryAfterS: number): PublicError {
  const detail = `Too many requests. Try again in ${retryAfterS} s.`;
  return messageError(429, CODE.rateLimited, { title: 'Too Many Requests', detail });
}

/**
 * The error for a failure on our side. The response has only the request id, by which operators find the cause in the
 * logs.
 */
export function internalError(requestId: string): PublicError {
  const detail = `Something went wrong on our side. Quote the request id ${requestId} to support.`;
  return messageError(500, CODE.internal, { title: 'Internal Server Error', detail });
}

export function unavailable(): PublicError {
  const detail = 'The service is not available at the moment. Try again shortly.';
  return messageError(503, CODE.unavailable, { title: 'Service Unavailable', detail });
}

/** The error for a second report (interface: Errors, fraud report). */
export function reportExists(): PublicError {
  const detail = 'A fraud report already exists for this return.';
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.fraudReportExists, title: 'Conflict', detail },
  };
}

/** The error when the state of the object does not allow the request. @param text from the service. */
export function conflict(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.conflict, title: 'Conflict', detail },
  };
}

/** The error for a webhook update with an invalid URL (interface: Errors). @param text from the service. */
export function webhookRejected(text: string): PublicError {
  const detail = sentence(text);
  return {
    status: 422,
    body: { errors: { code: CODE.webhookRefused, message: detail } },
    problem: { code: CODE.webhookRefused, title: 'Unprocessable Content', detail },
  };
}

/** The error for a delivery that cannot be sent again. @param text from the service. */
export function notReplayable(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { code: CODE.notReplayable, message: detail } },
    problem: { code: CODE.notReplayable, title: 'Conflict', detail },
  };
}

/** The error for a return that can no longer be cancelled. @param text from the service. */
export function notCancellable(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { code: CODE.notCancellable, message: detail } },
    problem: { code: CODE.notCancellable, title: 'Conflict', detail },
  };
}

/** Adds a full stop to a text that has none at its end. */
export function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function capitalized(text: string): string {
  return text.replace(/^./, (first) => first.toUpperCase());
}
