import { adviceForError } from './error-advice.ts';
import { type AttemptResult, isComplete, isSuccess } from './result.ts';

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
