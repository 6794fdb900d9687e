import { timestampMs } from '@bufbuild/protobuf/wkt';
import {
  type Attempt,
  type Delivery,
  DeliveryState,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { now } from '../../parts/time/clock.ts';

/** The states of deliveries that are not tried any more and did not arrive. A replay sends them again. */
export const GIVEN_UP: DeliveryState[] = [DeliveryState.EXHAUSTED, DeliveryState.EXPIRED];

/** The same as a filter of the log. */
export const GIVEN_UP_FILTER = 'exhausted,expired';

/** The states of all deliveries that their webhook has not received, as a filter of the log. */
export const NOT_RECEIVED = `waiting,held,${GIVEN_UP_FILTER}`;

/** A test that was not tried for this long waits for other deliveries of its webhook. Milliseconds. */
const SOON_MS = 60_000;

/** Whether a test is being sent at this moment. */
export function isBeingSent({ state, attempts, occurredAt }: Delivery): boolean {
  if (state !== DeliveryState.WAITING || attempts.length > 0) return false;
  return occurredAt !== undefined && now() - timestampMs(occurredAt) < SOON_MS;
}

export type AttemptResult = Pick<Attempt, 'status' | 'error'>;

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
