import { useQuery } from '@connectrpc/connect-query';
import { Alert, Code } from '@mantine/core';
import type { Delivery } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { adviceOf, answerText } from '../deliveries/advice.ts';
import { isSuccess } from '../deliveries/result.ts';
import {
  isBeingSent,
  TEST_REFRESH_MS,
  TestDeliveryResult,
} from '../deliveries/test-delivery-result.tsx';

/** How often a test is read that waits for other deliveries of its webhook. Milliseconds. */
const LATER_MS = 15_000;

/**
 * What became of a test event that the reader sent from this page. The warning of a failing webhook stands below: when it
 * says already what the receiver answered, the notice does not say it again.
 */
export function TestNotice(o: {
  readonly webhook: Webhook;
  readonly deliveryId: string;
  readonly onClose: () => void;
}) {
  const { webhook, deliveryId } = o;
  const { data, error } = useQuery(
    WebhooksService.method.getDelivery,
    { deliveryId },
    { refetchInterval: ({ state }) => refreshOf(state.data?.delivery) },
  );
  const delivery = data?.delivery;
  const isSaid = isInWarning(delivery, webhook);
  const [color, title] = headOf(delivery, isSaid);
  return (
    <Alert
      color={color}
      title={title}
      role="status"
      withCloseButton
      closeButtonLabel="Close"
      onClose={o.onClose}
    >
      {delivery ? (
        <Result of={delivery} isSaid={isSaid} />
      ) : (
        error && 'Its result could not be loaded.'
      )}
    </Alert>
  );
}

function refreshOf(delivery: Delivery | undefined): number | false {
  if (!delivery || isBeingSent(delivery)) return TEST_REFRESH_MS;
  return delivery.lastAttempt ? false : LATER_MS;
}

/** Whether the warning of the webhook says the same as the test: that of another delivery may fail in the same way. */
function isInWarning(delivery: Delivery | undefined, { health }: Webhook): boolean {
  const [attempt, failure] = [delivery?.lastAttempt, health?.lastFailure];
  return (
    health?.state === 'failing' &&
    attempt !== undefined &&
    failure !== undefined &&
    answerText(attempt) === answerText(failure)
  );
}

function headOf(
  delivery: Delivery | undefined,
  isSaid: boolean,
): readonly [color: string, title: string] {
  const attempt = delivery?.lastAttempt;
  if (attempt) {
    return isSuccess(attempt)
      ? ['green', 'The receiver accepted the test']
      : [isSaid ? 'gray' : 'red', 'The receiver did not accept the test'];
  }
  return !delivery || isBeingSent(delivery)
    ? ['blue', 'The test is being sent']
    : ['yellow', 'The test is not sent yet'];
}

function Result(o: { readonly of: Delivery; readonly isSaid: boolean }) {
  const { of: delivery, isSaid } = o;
  const { trigger, lastAttempt, state } = delivery;
  return (
    <>
      {lastAttempt && !isSuccess(lastAttempt) && (
        <div>
          {isSaid
            ? 'The message below says why, and what to check.'
            : `${answerText(lastAttempt)}. ${adviceOf(lastAttempt)}`}
          {state === 'waiting' && ' The service tries it again, like a real event.'}
        </div>
      )}
      An example of <Code>{trigger}</Code>: <TestDeliveryResult delivery={delivery} />
    </>
  );
}
