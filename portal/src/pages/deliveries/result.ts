import type { DeliveryAttempt } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';

export type Outcome = Pick<DeliveryAttempt, 'status' | 'error'>;

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

/**
 * An incomplete response has a status, too. A complete one whose status is not a success has the error
 * `answered <status>`.
 */
export function isComplete({ status, error }: Outcome): boolean {
  return status > 0 && (error === '' || error === `answered ${status}`);
}
