import { adviceForError } from './error-advice.ts';
import { isComplete, isSuccess, type Outcome } from './result.ts';

/** Why an attempt failed, such as `your system answered 500` or `connection refused`. */
export function failureText(outcome: Outcome): string {
  return isComplete(outcome) ? `your system answered ${outcome.status}` : outcome.error;
}

/** What the reader can check, by the error or by the status of the response; empty when nothing is wrong. */
export function adviceOf(outcome: Outcome): string {
  if (isSuccess(outcome)) return '';
  const { status, error } = outcome;
  if (!isComplete(outcome)) return adviceForError(error, status > 0);
  if (status === 401 || status === 403) {
    return 'Your system rejected the request. Check that it verifies the signature with the newest secret, and that no firewall asks for a sign-in.';
  }
  if (status === 404 || status === 405) {
    return 'Your system does not accept POST requests at this address. Check the address of the webhook.';
  }
  if (status === 410) {
    return 'Your system said that this address is gone permanently, which makes the webhook inactive. Correct the address or your system, and make the webhook active again.';
  }
  if (status >= 300 && status < 400) {
    return 'Your system redirected the request. Redirects are not followed: use the final address.';
  }
  if (status === 429)
    return 'Your system asked us to slow down. We send less, and repeat this later.';
  if (status >= 500)
    return 'Your system had an error. Its logs say more; search them for the webhook-id.';
  return 'Your system must answer with a status of 200 to 299.';
}
