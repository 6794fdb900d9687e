import type { PROBLEM_CODES } from './errors.ts';
import type { ProcessRefusalCode } from './vocabulary.ts';

/** The page that explains the errors of the REST API. Every error links to it. */
export const ERRORS_PATH = '/docs/errors';

type Code = (typeof PROBLEM_CODES)[keyof typeof PROBLEM_CODES];

export interface ErrorHelp {
  /** The statuses that an error with this code has. */
  readonly statuses: readonly number[];
  readonly meaning: string;
  /** What the caller can do. */
  readonly help: string;
}

/** What each code means, and what to do. */
export const ERROR_HELP: Readonly<Record<Code, ErrorHelp>> = {
  BAD_REQUEST: {
    statuses: [400, 408],
    meaning: 'The body is not a JSON object, is nested too deeply, or arrived too slowly.',
    help: 'Send one JSON object with Content-Type: application/json, at most 32 levels deep.',
  },
  UNAUTHORIZED: {
    statuses: [401],
    meaning:
      'There is no credential, or it is unknown, mistyped, expired or revoked. Outside of dispositioning also: it lacks the scope of the operation.',
    help: 'Read the header WWW-Authenticate. API keys go alone into X-Authorization: X-Authorization: rms_…. With error="insufficient_scope" the credential is valid: create a key with the scope that is named.',
  },
  FORBIDDEN: {
    statuses: [403],
    meaning:
      'Only in dispositioning: the credential is valid, but lacks the scope of the operation.',
    help: 'Create a key with the scope that WWW-Authenticate names.',
  },
  NOT_FOUND: {
    statuses: [404],
    meaning: 'There is nothing at this path, or the shop of the credential has no such object.',
    help: 'Check the path and the id. Objects of another shop are answered like objects that do not exist. Names of orders usually begin with #, which is %23 in a query.',
  },
  UNKNOWN_API_VERSION: {
    statuses: [404],
    meaning: 'The path names no version of this API.',
    help: 'Use a version that the message lists, such as /api/2026-10/….',
  },
  METHOD_NOT_ALLOWED: {
    statuses: [405],
    meaning: 'The path exists, but not with this method.',
    help: 'Use a method of the header Allow.',
  },
  CONFLICT: {
    statuses: [409],
    meaning: 'The state of the object does not allow the request.',
    help: 'Read the object and decide again. The same request will fail again.',
  },
  NOT_ELIGIBLE: {
    statuses: [422],
    meaning:
      'The return policy, or what happened to the order, refuses lines of the submission. Nothing was written.',
    help: 'Show the shopper why: lines has a code for each refused line. Read GET /orders/eligibility before you submit.',
  },
  NO_ORDER_LOOKUP: {
    statuses: [409],
    meaning: "The shop's commerce platform cannot look up orders.",
    help: 'Submit the return with order, which has the lines and their amounts.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    statuses: [409],
    meaning:
      'An earlier request had the same Idempotency-Key and other content. Nothing was changed.',
    help: 'Send a new key for a new request, and the same key and content for a repeat.',
  },
  FRAUD_REPORT_EXISTS: {
    statuses: [409],
    meaning: 'The return has a fraud report already. There is one for each return.',
    help: 'Nothing needs to be done.',
  },
  PAYLOAD_TOO_LARGE: {
    statuses: [413],
    meaning: 'The body is larger than the operation accepts.',
    help: 'Send fewer items in one request.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    statuses: [415],
    meaning: 'The body is not declared as JSON.',
    help: 'Send Content-Type: application/json.',
  },
  VALIDATION_FAILED: {
    statuses: [422],
    meaning:
      'A field of the body or the query breaks a rule, or the Idempotency-Key was used with other content. Nothing was changed.',
    help: 'The message names the field and the rule. Correct the field. With other content, send a new Idempotency-Key.',
  },
  FAILED_TO_CREATE_WEBHOOK: {
    statuses: [422],
    meaning: 'The address of the webhook is not allowed, or the shop has too many webhooks.',
    help: 'The message says which. Use a public https address without user name and fragment, at port 443 or from 1024 up. Or delete a webhook.',
  },
  DELIVERY_NOT_REPLAYABLE: {
    statuses: [409],
    meaning: 'The delivery is waiting already, its webhook is gone, or its payload is too old.',
    help: 'The message says which.',
  },
  NOT_CANCELLABLE: {
    statuses: [409],
    meaning: 'The return is closed, expired or being processed, or a part of it was paid.',
    help: 'The message says which. Read the return and decide again.',
  },
  RATE_LIMITED: {
    statuses: [429],
    meaning: 'Too many requests, or too many bytes, with this credential or from this address.',
    help: 'Wait for the seconds of the header Retry-After, then send fewer at a time.',
  },
  INTERNAL_ERROR: {
    statuses: [500],
    meaning: 'An error on our side.',
    help: 'Send the X-Request-Id to support. You may repeat requests that only read, and the request to process a return.',
  },
  SERVICE_UNAVAILABLE: {
    statuses: [503],
    meaning: 'A part of the service does not answer, or is overloaded.',
    help: 'Repeat the request after the seconds of the header Retry-After, with growing pauses.',
  },
};

/**
 * The rejections in a response of process return with status 200. They are no HTTP errors, so they have no `Link`, and
 * their body is the same in every version.
 */
export const PROCESS_REFUSAL_HELP: Readonly<Record<ProcessRefusalCode, ErrorHelp>> = {
  UNPROCESSABLE_RETURN: {
    statuses: [200],
    meaning:
      'The return cannot be processed, and nothing was queued. It is closed, cancelled or expired, its exchange order was cancelled, or the shop is live and has no commerce provider.',
    help: 'The message says which. Do not repeat the request. If the exchange order was cancelled, cancel the return. Without a commerce provider ask the operator of the service.',
  },
  UNPROCESSABLE_FLAGGED_RETURN: {
    statuses: [200],
    meaning: 'The return is flagged: its state is review. Nothing was queued.',
    help: 'Wait until a user of the shop has reviewed it. Then return.updated arrives; send the request again.',
  },
};

/** The link that an error with this code has. */
export function helpLink(code: string): string {
  return `<${ERRORS_PATH}#${code}>; rel="help"`;
}
