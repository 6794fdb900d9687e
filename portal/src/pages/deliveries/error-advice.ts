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
export function adviceForError(error: string, hasStatus: boolean): string {
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
