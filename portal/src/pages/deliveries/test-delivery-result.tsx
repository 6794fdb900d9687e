import { timestampMs } from '@bufbuild/protobuf/wkt';
import { Link } from '@tanstack/react-router';
import type { Delivery } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { now } from '../../parts/clock.ts';
import { Time } from '../../parts/time.tsx';
import { isSuccess, resultText } from './result.ts';

/** How often a test is read until it was tried. Milliseconds. */
export const TEST_REFRESH_MS = 1_000;

/** A test that was not tried for this long waits for other deliveries of its webhook. Milliseconds. */
const SOON_MS = 60_000;

/** Whether a test is being sent at this moment. */
export function isBeingSent({ state, lastAttempt, occurredAt }: Delivery): boolean {
  if (state !== 'waiting' || lastAttempt) return false;
  return occurredAt !== undefined && now() - timestampMs(occurredAt) < SOON_MS;
}

/** What became of a test event, such as `accepted (HTTP 200) on …`, with a link to its delivery. */
export function TestDeliveryResult(o: {
  readonly delivery: Delivery;
  readonly withoutLink?: boolean;
}) {
  const { id: deliveryId, lastAttempt } = o.delivery;
  return (
    <>
      {stateText(o.delivery)}
      {lastAttempt && (
        <>
          {' on '}
          <Time at={lastAttempt.startedAt} />
        </>
      )}
      {!o.withoutLink && (
        <>
          {'. '}
          <Link to="/deliveries/$deliveryId" params={{ deliveryId }}>
            See the delivery
          </Link>
        </>
      )}
    </>
  );
}

function stateText(delivery: Delivery): string {
  const { state, lastAttempt } = delivery;
  if (lastAttempt) {
    const isAccepted = state === 'delivered' || isSuccess(lastAttempt);
    return `${isAccepted ? 'accepted' : 'not accepted'} (${resultText(lastAttempt)})`;
  }
  if (isBeingSent(delivery)) return 'sending…';
  return state === 'held' ? 'not sent, because the webhook is inactive' : 'not sent yet';
}
