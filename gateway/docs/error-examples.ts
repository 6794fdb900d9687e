import { STATUS_CODES } from 'node:http';
import { helpLink } from '../../services/contract/error-help.ts';
import { NOT_FOUND, type PROBLEM_CODES, type PublicError } from '../../services/contract/errors.ts';
import { BODY_BYTES_MAX } from '../../services/contract/limits.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import * as contract from '../../services/contract/public-errors.ts';
import { RELEASED, serve } from '../../services/contract/versions.ts';
import * as errors from '../errors.ts';
import { HINT } from '../http/help-headers.ts';
import { rejectedKeyChallenge, scopeChallenge } from '../rest/challenge.ts';
import { showRequests } from '../rest/rate-limit-headers.ts';

type Code = (typeof PROBLEM_CODES)[keyof typeof PROBLEM_CODES];

/** An error as a partner gets it: what decides, without the headers that every response has. */
export interface ErrorExample {
  readonly error: PublicError;
  readonly headers: Readonly<Record<string, string>>;
}

const example = (
  { error, headers }: Pick<errors.HttpError, 'error' | 'headers'>,
  more: Readonly<Record<string, string>> = {},
): ErrorExample => ({ error, headers: { ...headers, ...more } });

const plain = (error: PublicError, hint?: string): ErrorExample => ({
  error,
  headers: hint === undefined ? {} : { [HINT]: hint },
});

const [ASSESS] = OPERATIONS.filter(({ id }) => id === 'assessDispositions');
if (!ASSESS) throw new Error('there is no such operation');

const REQUEST_ID = '5f0c2a9e-8f6d-4b7e-9c61-2d1f7a3b4c5d';
const RETRY_AFTER_S = 12;

/** One example of each code, made by the functions that make the real ones. */
export const ERROR_EXAMPLES: Readonly<Record<Code, ErrorExample>> = {
  BAD_REQUEST: plain(contract.badBody('The body must be a JSON object.')),
  UNAUTHORIZED: example(errors.unauthorized(rejectedKeyChallenge({ headers: {}, url: '' }))),
  FORBIDDEN: example(errors.forbidden(scopeChallenge(ASSESS, { scheme: 'api-key' }))),
  NOT_FOUND: plain(
    NOT_FOUND.webhook,
    'the shop of this key has no webhook 12: list them with GET /webhooks',
  ),
  UNKNOWN_API_VERSION: example(errors.unknownVersion(unknownVersionText())),
  METHOD_NOT_ALLOWED: example(errors.methodNotAllowed('GET, PUT, DELETE, HEAD, OPTIONS')),
  CONFLICT: plain(contract.conflict('the subscription is inactive')),
  FRAUD_REPORT_EXISTS: plain(contract.reportExists()),
  PAYLOAD_TOO_LARGE: plain(contract.tooLarge(BODY_BYTES_MAX)),
  UNSUPPORTED_MEDIA_TYPE: plain(
    contract.unsupportedMediaType('The body must be sent as application/json.'),
  ),
  VALIDATION_FAILED: plain(
    contract.invalidField('trigger', 'is required'),
    'event is no field of this operation and was ignored; did you mean trigger?',
  ),
  FAILED_TO_CREATE_WEBHOOK: plain(contract.webhookRejected('url must be an https address')),
  DELIVERY_NOT_REPLAYABLE: plain(contract.notReplayable('the delivery is waiting already')),
  RATE_LIMITED: example(errors.rateLimited(RETRY_AFTER_S), usedUp()),
  INTERNAL_ERROR: plain(contract.internalError(REQUEST_ID)),
  SERVICE_UNAVAILABLE: example(errors.unavailable(undefined)),
};

function unknownVersionText(): string {
  const today = new Date(`${RELEASED.at(-1)}-01T00:00:00Z`);
  const served = serve('2025-01', today);
  if (!('unknown' in served)) throw new Error('the version exists');
  return served.unknown;
}

/** The headers of a limit without a point left. */
function usedUp(): Record<string, string> {
  const headers: Record<string, string> = {};
  const setHeader = (name: string, value: string) => Object.assign(headers, { [name]: value });
  const rest = { points: 0, seconds: RETRY_AFTER_S };
  showRequests({ headersSent: false, setHeader }, 300, rest);
  return headers;
}

/** The text of a response: status, headers and body, as `curl -i` prints it. */
export function responseText({ error, headers }: ErrorExample): string {
  const { status, body, problem } = error;
  const all = { ...headers, Link: helpLink(problem.code) };
  return httpText({ status, headers: all, body });
}

/** A response as text, as `curl -i` prints it. */
export function httpText(o: {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}): string {
  const lines = Object.entries(o.headers).map(([name, value]) => `${name}: ${value}`);
  return [
    `HTTP/1.1 ${o.status} ${STATUS_CODES[o.status]}`,
    ...lines,
    '',
    JSON.stringify(o.body),
  ].join('\n');
}
