import type { DeliveryAttempt } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';

export type AttemptResult = Pick<DeliveryAttempt, 'status' | 'error'>;

/** Whether the address accepted the request: a complete response with a status of 200 to 299. */
export function isSuccess({ status, error }: AttemptResult): boolean {
  return error === '' && status >= 200 && status < 300;
}

/** How an attempt ended, such as `HTTP 200`, `HTTP 200, incomplete` or `connection refused`. */
export function resultText(result: AttemptResult): string {
  const { status, error } = result;
  if (status === 0) return error === '' ? 'no response' : error;
  return isComplete(result) ? `HTTP ${status}` : `HTTP ${status}, incomplete`;
}

/**
 * An incomplete response has a status, too. A complete one whose status is not a success has the error
 * `answered <status>`.
 */
export function isComplete({ status, error }: AttemptResult): boolean {
  return status > 0 && (error === '' || error === `answered ${status}`);
}
