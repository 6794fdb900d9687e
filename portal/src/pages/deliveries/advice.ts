import { type AttemptResult, isComplete, isSuccess } from './delivery.ts';

/** What the receiver's system says with a status, and what to do then, by the lowest and the highest status. */
const ANSWERS: readonly (readonly [from: number, to: number, says: string, advice: string])[] = [
  [300, 399, 'the address has moved', 'Redirects are not followed: use the final address.'],
  [
    401,
    403,
    'the request is not allowed',
    'Check that it verifies the signature with the newest secret, and that no firewall asks for a sign-in.',
  ],
  [404, 404, 'this address does not exist', 'Check the address of the webhook.'],
  [405, 405, 'it takes no such requests at this address', 'Check the address of the webhook.'],
  [
    410,
    410,
    'this address is gone permanently',
    'This makes the webhook inactive. Correct the address, and activate the webhook again.',
  ],
  [429, 429, 'it gets too many requests', 'We send less, and repeat this later.'],
  [500, 599, 'it had an error', 'Its logs say more; search them for the webhook-id.'],
  [0, 999, 'it did not accept the request', 'It must answer with a status of 200 to 299.'],
];

function answerTo(status: number) {
  return ANSWERS.find(([from, to]) => from <= status && status <= to);
}

/** How an attempt ended, in a sentence, such as `No answer: connection refused`. */
export function answerText(result: AttemptResult): string {
  const { status, error } = result;
  if (isSuccess(result)) return `The receiver accepted it (${status})`;
  if (!isComplete(result)) return `No ${status > 0 ? 'complete ' : ''}answer: ${error}`;
  return `The receiver's system says that ${answerTo(status)?.[2]} (${status})`;
}

/** What the reader can check, by the error or by the status of the response; empty when nothing is wrong. */
export function adviceOf(result: AttemptResult): string {
  if (isSuccess(result)) return '';
  const { status, error } = result;
  if (!isComplete(result)) return adviceForError(error, status > 0);
  return answerTo(status)?.[3] ?? '';
}

const PUBLIC_HOST =
  'Check the host name in the address of the webhook: it must be known in the internet, and its address must be public.';
const LISTENS =
  "Check that the receiver's system is running, and that its firewall lets connections from the internet in.";
const SHORT_ANSWER =
  'The answer was larger than we read. The receiver must answer with few headers and a short or empty body.';
const HTTP =
  "The receiver's system did not answer as HTTP/1.1 requires. Check its server and its proxies.";
const NO_END =
  'The answer has no end. The receiver must send a Content-Length, or close the connection after the answer.';
const NO_TLS =
  "The receiver's system answered without encryption. Check the port in the address of the webhook.";

/** Advice by the beginning of an error. `describeFailure` of the webhooks service writes these texts. */
const ADVICE: readonly (readonly [beginning: string, advice: string])[] = [
  ['certificate has expired', "The certificate of the receiver's system must be renewed."],
  ['certificate is not valid yet', 'Use a certificate that is valid today.'],
  [
    'certificate is not trusted',
    "Use a certificate of a public authority, and let the receiver's system send the intermediate certificates with it.",
  ],
  [
    'certificate is for another host',
    'Use a certificate for the host name in the address of the webhook.',
  ],
  ['address is not allowed', PUBLIC_HOST],
  ['connection refused', LISTENS],
  ['host cannot be reached', LISTENS],
  ['no connection in time', LISTENS],
  ['answer is too long', SHORT_ANSWER],
  ['headers of the answer are too large', SHORT_ANSWER],
  ['too many informational answers', HTTP],
  ['answer is not one to a POST', HTTP],
  ['answer is shorter or longer than it says', HTTP],
  ['answer is not HTTP/1.1', HTTP],
  ['answer is not TLS', NO_TLS],
];

const TIME_LIMIT = /^no complete answer within (\d+) ms/;

/**
 * What the reader can check after an error, by its kind.
 *
 * @param hasStatus whether the response began, and was not complete.
 */
function adviceForError(error: string, hasStatus: boolean): string {
  const limitMs = TIME_LIMIT.exec(error)?.[1];
  if (error.includes('no Content-Length')) return NO_END;
  if (limitMs !== undefined) return adviceForTimeLimit(Number(limitMs) / 1_000, hasStatus);
  const known = ADVICE.find(([beginning]) => error.startsWith(beginning));
  if (known) return known[1];
  return hasStatus
    ? "The answer was not complete. Check that the receiver's system and its proxies send it to the end."
    : "The receiver's system did not answer. Check that the address is right and reachable from the internet.";
}

function adviceForTimeLimit(seconds: number, hasStatus: boolean): string {
  const what = hasStatus ? 'The answer was not complete' : "The receiver's system did not answer";
  return `${what} within ${seconds} seconds. It must answer at once, and process the event afterwards.`;
}
