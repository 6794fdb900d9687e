import { Link } from '@tanstack/react-router';
import { type Delivery, DeliveryState } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Time } from '../../parts/time/time.tsx';
import { isBeingSent, isSuccess, resultText } from './delivery.ts';

/** How often a test is read until it was tried. Milliseconds. */
export const TEST_REFRESH_MS = 1_000;

/** What became of a test event, such as `accepted (HTTP 200) on …`, with a link to its delivery. */
export function TestDeliveryResult(o: {
  readonly delivery: Delivery;
  readonly withoutLink?: boolean;
}) {
  const { id: deliveryId, attempts } = o.delivery;
  const lastAttempt = attempts.at(-1);
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
  const { state } = delivery;
  const lastAttempt = delivery.attempts.at(-1);
  if (lastAttempt) {
    const isAccepted = state === DeliveryState.DELIVERED || isSuccess(lastAttempt);
    return `${isAccepted ? 'accepted' : 'not accepted'} (${resultText(lastAttempt)})`;
  }
  if (isBeingSent(delivery)) return 'sending…';
  return state === DeliveryState.HELD
    ? 'not sent, because the webhook is inactive'
    : 'not sent yet';
}
