/**
 * An error before it gets the shape of a version: the body of released versions, and the fields of a problem document.
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
  fraudReportExists: 'FRAUD_REPORT_EXISTS',
  tooLarge: 'PAYLOAD_TOO_LARGE',
  unsupportedMediaType: 'UNSUPPORTED_MEDIA_TYPE',
  invalid: 'VALIDATION_FAILED',
  webhookRefused: 'FAILED_TO_CREATE_WEBHOOK',
  notReplayable: 'DELIVERY_NOT_REPLAYABLE',
  rateLimited: 'RATE_LIMITED',
  internal: 'INTERNAL_ERROR',
  unavailable: 'SERVICE_UNAVAILABLE',
} as const;

/** The 404 body of each operation (interface: Errors). */
export const NOT_FOUND = {
  webhook: notFound('No webhook has this ID.', { errors: { code: 'NOT_FOUND' } }),
  delivery: notFound('No delivery of this webhook has this ID.', {
    errors: { code: 'NOT_FOUND' },
  }),
  replay: notFound('No replay has this ID.', { errors: { code: 'NOT_FOUND' } }),
  destination: notFound('No destination has this ID.', {
    code: 'NOT_FOUND',
    message: 'No destination has this ID.',
  }),
  returnDetails: notFound('No return found with this ID.', {
    errors: { message: 'No return found with this ID.' },
  }),
  fraudReport: notFound('No return has this ID.', {
    errors: { message: 'No return has this ID.' },
  }),
  effects: notFound('No return has this ID.', { errors: { message: 'No return has this ID.' } }),
  labels: notFound('No return has this ID.', { errors: { message: 'No return has this ID.' } }),
  giftCard: notFound('No return has this ID.', { errors: { message: 'No return has this ID.' } }),
  label: notFound('No label has this ID.', { errors: { message: 'No label has this ID.' } }),
  cart: notFound('No cart has this token.', { errors: { message: 'No cart has this token.' } }),
  processReturn: notFound('No return has this ID.', {
    errors: { message: 'No return has this ID.', code: 'NOT_FOUND' },
  }),
} as const;

function notFound(detail: string, body: object): PublicError {
  return {
    status: 404,
    body,
    problem: { code: PROBLEM_CODES.notFound, title: 'Not Found', detail },
  };
}
