/**
 * An error in a form from which each version makes its own: the body of released versions, and the fields of a problem
 * document.
 */
export interface PublicError {
  readonly status: number;
  readonly body: object;
  readonly problem: {
    readonly code: string;
    readonly title: string;
    readonly detail: string;
    readonly errors?: readonly { readonly field: string; readonly message: string }[];
  };
}

/** The codes of problem documents. Errors that have a code in the interface have the same code here. */
export const PROBLEM_CODES = {
  badRequest: 'BAD_REQUEST',
  unauthorized: 'UNAUTHORIZED',
  forbidden: 'FORBIDDEN',
  notFound: 'NOT_FOUND',
  unknownVersion: 'UNKNOWN_API_VERSION',
  methodNotAllowed: 'METHOD_NOT_ALLOWED',
  conflict: 'CONFLICT',
  keyReused: 'IDEMPOTENCY_KEY_REUSED',
  fraudReportExists: 'FRAUD_REPORT_EXISTS',
  tooLarge: 'PAYLOAD_TOO_LARGE',
  unsupportedMediaType: 'UNSUPPORTED_MEDIA_TYPE',
  invalid: 'VALIDATION_FAILED',
  notEligible: 'NOT_ELIGIBLE',
  noOrderLookUp: 'NO_ORDER_LOOKUP',
  webhookRefused: 'FAILED_TO_CREATE_WEBHOOK',
  notReplayable: 'DELIVERY_NOT_REPLAYABLE',
  notCancellable: 'NOT_CANCELLABLE',
  rateLimited: 'RATE_LIMITED',
  internal: 'INTERNAL_ERROR',
  unavailable: 'SERVICE_UNAVAILABLE',
} as const;

/** The errors with status 404. Their bodies have a different shape for each kind of object (interface: Errors). */
export const NOT_FOUND = {
  webhook: withCode('No webhook has this ID.'),
  delivery: withCode('No delivery of this webhook has this ID.'),
  replay: withCode('No replay has this ID.'),
  destination: notFound('No destination has this ID.', {
    code: PROBLEM_CODES.notFound,
    message: 'No destination has this ID.',
  }),
  returnDetails: withMessage('No return found with this ID.'),
  return: withMessage('No return has this ID.'),
  arrivedReturn: withMessage('No return has this ID, tracking number or order name.'),
  label: withMessage('No label has this ID.'),
  order: withMessage('No order was found.'),
  cart: withMessage('No cart has this token.'),
  processReturn: notFound('No return has this ID.', {
    errors: { message: 'No return has this ID.', code: PROBLEM_CODES.notFound },
  }),
} as const;

function withCode(detail: string): PublicError {
  return notFound(detail, { errors: { code: PROBLEM_CODES.notFound } });
}

function withMessage(message: string): PublicError {
  return notFound(message, { errors: { message } });
}

function notFound(detail: string, body: object): PublicError {
  return {
    status: 404,
    body,
    problem: { code: PROBLEM_CODES.notFound, title: 'Not Found', detail },
  };
}
