import { PROBLEM_CODES as CODE, type PublicError } from './errors.ts';

// The errors of the REST API that do not depend on the operation. The gateway answers with them, and the OpenAPI
// documents have them as examples.

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

/** Interface: Errors, every REST endpoint. */
export function unauthorized(): PublicError {
  const detail = 'Unauthorized.';
  return {
    status: 401,
    body: { errors: detail },
    problem: { code: CODE.unauthorized, title: 'Unauthorized', detail },
  };
}

/** Interface: Errors, dispositioning. */
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

/** One field of the body, the query or the headers that breaks a rule. @param rule follows the name of the field. */
export function invalidField(field: string, rule: string): PublicError {
  const message = `${field} ${rule}.`;
  return invalid(message, [{ field, message }]);
}

/** The `Idempotency-Key` of another request. The draft of the header has 422 for it. */
export function keyOfOtherContent(): PublicError {
  return invalidField(
    'Idempotency-Key',
    'was used with other content: send a new key, or the same content as before',
  );
}

export function rateLimited(retryAfterS: number): PublicError {
  const detail = `Too many requests. Try again in ${retryAfterS} s.`;
  return messageError(429, CODE.rateLimited, { title: 'Too Many Requests', detail });
}

/** The response contains only the request id, with which operators find the cause in the logs. */
export function internalError(requestId: string): PublicError {
  const detail = `Something went wrong on our side. Quote the request id ${requestId} to support.`;
  return messageError(500, CODE.internal, { title: 'Internal Server Error', detail });
}

export function unavailable(): PublicError {
  const detail = 'The service is not available at the moment. Try again shortly.';
  return messageError(503, CODE.unavailable, { title: 'Service Unavailable', detail });
}

/** Interface: Errors, fraud report. */
export function reportExists(): PublicError {
  const detail = 'A fraud report already exists for this return.';
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.fraudReportExists, title: 'Conflict', detail },
  };
}

/** The state of the object does not allow the request. @param text of the service. */
export function conflict(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { message: detail } },
    problem: { code: CODE.conflict, title: 'Conflict', detail },
  };
}

/** Interface: Errors, webhook update with an invalid URL. @param text of the service. */
export function webhookRejected(text: string): PublicError {
  const detail = sentence(text);
  return {
    status: 422,
    body: { errors: { code: CODE.webhookRefused, message: detail } },
    problem: { code: CODE.webhookRefused, title: 'Unprocessable Content', detail },
  };
}

/** A delivery that cannot be sent again. @param text of the service. */
export function notReplayable(text: string): PublicError {
  const detail = sentence(capitalized(text));
  return {
    status: 409,
    body: { errors: { code: CODE.notReplayable, message: detail } },
    problem: { code: CODE.notReplayable, title: 'Conflict', detail },
  };
}

/** Ends a text of a service as a sentence. */
export function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function capitalized(text: string): string {
  return text.replace(/^./, (first) => first.toUpperCase());
}
