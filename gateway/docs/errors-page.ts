import { STATUS_CODES } from 'node:http';
import {
  ERROR_HELP,
  type ErrorHelp,
  helpLink,
  PROCESS_REFUSAL_HELP,
} from '../../services/contract/error-help.ts';
import { NOT_FOUND, type PROBLEM_CODES, type PublicError } from '../../services/contract/errors.ts';
import { BODY_BYTES_MAX } from '../../services/contract/limits.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import * as contract from '../../services/contract/public-errors.ts';
import { shapeError } from '../../services/contract/shape.ts';
import { RELEASED, serve, UNSTABLE } from '../../services/contract/versions.ts';
import type { ProcessRefusalCode } from '../../services/contract/vocabulary.ts';
import * as errors from '../errors.ts';
import { HINT } from '../http/help-headers.ts';
import { type Html, html } from '../oauth/pages/html.ts';
import { rejectedKeyChallenge, scopeChallenge } from '../rest/challenge.ts';
import { showRequests } from '../rest/rate-limit-headers.ts';
import type { Rendered } from './markdown.ts';

type Code = (typeof PROBLEM_CODES)[keyof typeof PROBLEM_CODES];

/** An error as a partner gets it: what decides, without the headers that every response has. */
interface ErrorExample {
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

const NOT_ELIGIBLE = contract.notEligible(
  'order line 9001 cannot be returned: The time to return it has ended.',
  [{ provider_line_item_id: 9001, code: 'WINDOW_ENDED' }],
);

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
  NOT_ELIGIBLE: plain(NOT_ELIGIBLE),
  NO_ORDER_LOOKUP: plain(contract.noOrderLookUp()),
  IDEMPOTENCY_KEY_REUSED: plain(contract.keyReused()),
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
  NOT_CANCELLABLE: plain(contract.notCancellable('the return is closed')),
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
function responseText({ error, headers }: ErrorExample): string {
  const { status, body, problem } = error;
  const all = { ...headers, Link: helpLink(problem.code) };
  return httpText({ status, headers: all, body });
}

/** A response as text, as `curl -i` prints it. */
function httpText(o: {
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

const INVALID = contract.invalidField('trigger', 'is required');
const REFUSAL = {
  message: 'The return is closed and cannot be processed.',
  code: 'UNPROCESSABLE_RETURN',
};

/** Which errors have which body in the released versions. The first one that fits counts. */
const SHAPES: readonly (readonly [when: string, example: PublicError])[] = [
  ['401 of every operation', contract.unauthorized()],
  ['403, of dispositioning', contract.forbidden()],
  ['404 of a webhook, a delivery, a replay', NOT_FOUND.webhook],
  ['404 of a destination', NOT_FOUND.destination],
  ['404 of process return', NOT_FOUND.processReturn],
  ['404 of other objects; 409 of most operations', NOT_FOUND.returnDetails],
  ['409 of sending one delivery again', contract.notReplayable('the delivery is waiting already')],
  ['409 of cancel return', contract.notCancellable('the return is closed')],
  ['422 of lines that cannot be returned', NOT_ELIGIBLE],
  ['422 of the address of a webhook', contract.webhookRejected('the url must be https')],
  ['every other error, such as a 422 of a field, a 404 of a path, 429 and 5xx', INVALID],
];

/** The section that says what a program finds where. Its bodies are those that the gateway sends. */
function errorShapes(): Html {
  const rows = SHAPES.map(
    ([
      when,
      { body },
    ]) => html`<tr><td>${when}</td><td><code>${JSON.stringify(body)}</code></td></tr>
`,
  );
  return html`<h2 id="how-an-error-looks">How an error looks</h2>
<p>In every version the code is in the header <code>Link</code>, after the <code>#</code>:</p>
<pre tabindex="0"><code>Link: &lt;/docs/errors#VALIDATION_FAILED&gt;; rel="help"</code></pre>
<p>So read the status and this header first, and show the message of the body to people. Texts may change, codes do not.
The header <code>X-Service-Hint</code>, where there is one, says what was ignored, or what you may have meant.
The bodies of released versions differ by operation:</p>
<div class="wide" tabindex="0"><table>
<thead><tr><th>Error</th><th>Body</th></tr></thead>
<tbody>
${rows}</tbody>
</table></div>
<p>In <code>${UNSTABLE}</code> every error has the same body, a problem document (RFC 9457, <code>${shapeError(UNSTABLE, INVALID).contentType}</code>):</p>
<pre tabindex="0"><code>${JSON.stringify(shapeError(UNSTABLE, INVALID).body, undefined, 2)}</code></pre>
<p>Process return rejects a return inside a 200, in every version. Look for <code>errors</code> in the body, which is <code>true</code> otherwise:</p>
<pre tabindex="0"><code>${JSON.stringify({ errors: REFUSAL })}</code></pre>
`;
}

/** The page to which every error links: how errors look, each code, what it means, and what to do. */
export function errorsPage(): Rendered {
  const title = 'Errors of the Returns API';
  return {
    title,
    body: html`<h1>${title}</h1>
<p>For engineers who call the API. This page says how an error looks, what each code means, and how a response with it may look.
Every error links to its code here. Send the header <code>X-Request-Id</code> of an answer to support.</p>
${errorShapes()}
${sectionsOf(ERROR_HELP, (code) => responseText(ERROR_EXAMPLES[code]))}
${sectionsOf(PROCESS_REFUSAL_HELP, refusalText)}`,
  };
}

/** @param exampleOf a response with this code, as text. */
function sectionsOf<K extends string>(
  codes: Readonly<Record<K, ErrorHelp>>,
  exampleOf: (code: K) => string,
): Html[] {
  return keysOf(codes).map((code) => {
    const { statuses, meaning, help } = codes[code];
    return html`<h2 id="${code}">${code} <small>${statuses.join(', ')}</small></h2>
<p>${meaning}</p>
<p><strong>What to do.</strong> ${help}</p>
<pre tabindex="0"><code>${exampleOf(code)}</code></pre>
`;
  });
}

function keysOf<K extends string>(record: Readonly<Record<K, unknown>>): K[] {
  return Object.keys(record) as K[];
}

const REFUSALS: Readonly<Record<ProcessRefusalCode, string>> = {
  UNPROCESSABLE_RETURN: 'The return is closed and cannot be processed.',
  UNPROCESSABLE_FLAGGED_RETURN:
    'The return is flagged: a user must review it before it can be processed.',
};

function refusalText(code: ProcessRefusalCode): string {
  return httpText({
    status: 200,
    headers: {},
    body: { errors: { message: REFUSALS[code], code } },
  });
}
