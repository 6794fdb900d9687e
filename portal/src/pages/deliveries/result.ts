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
