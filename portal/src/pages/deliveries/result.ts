import type { DeliveryAttempt } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { adviceForError } from './error-advice.ts';

type Outcome = Pick<DeliveryAttempt, 'status' | 'error'>;

/** Whether the address accepted the request: a complete response with a status of 200 to 299. */
export function isSuccess({ status, error }: Outcome): boolean {
  return error === '' && status >= 200 && status < 300;
}

/** How an attempt ended, such as `HTTP 200`, `HTTP 200, incomplete` or `connection refused`. */
export function resultText(outcome: Outcome): string {
  const { status, error } = outcome;
  if (status === 0) return error === '' ? 'no response' : error;
  return isComplete(outcome) ? `HTTP ${status}` : `HTTP ${status}, incomplete`;
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

/** An incomplete response has a status, too. A complete one that is no success has the error `answered <status>`. */
function isComplete({ status, error }: Outcome): boolean {
  return status > 0 && (error === '' || error === `answered ${status}`);
}
