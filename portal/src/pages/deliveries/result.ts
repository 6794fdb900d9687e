import type { DeliveryAttempt } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';

/** Whether the address accepted the request: any status of 200 to 299. */
export function isSuccess({ status, error }: DeliveryAttempt): boolean {
  return error === '' && status >= 200 && status < 300;
}

/** How an attempt ended, such as `HTTP 200` or `connection refused`. */
export function resultText({ status, error }: DeliveryAttempt): string {
  if (status === 0) return error === '' ? 'no response' : error;
  return `HTTP ${status}`;
}

/** What the reader can check, by what the address answered; empty when nothing is wrong. */
export function adviceOf(attempt: DeliveryAttempt): string {
  if (isSuccess(attempt)) return '';
  const { status } = attempt;
  if (status === 401 || status === 403) {
    return 'Your system rejected the request. Check that it verifies the signature with the newest secret, and that no firewall asks for a sign-in.';
  }
  if (status === 404 || status === 405 || status === 410) {
    return 'Your system does not accept POST requests at this address. Check the address of the webhook.';
  }
  if (status >= 300 && status < 400) {
    return 'Your system redirected the request. Redirects are not followed: use the final address.';
  }
  if (status === 429)
    return 'Your system asked us to slow down. We send less, and repeat this later.';
  if (status >= 500)
    return 'Your system had an error. Its logs say more; search them for the webhook-id.';
  if (status === 0) {
    return 'Your system did not answer. Check that the address is right and reachable from the internet, and that it answers within 15 seconds.';
  }
  return 'Your system must answer with a status of 200 to 299.';
}
