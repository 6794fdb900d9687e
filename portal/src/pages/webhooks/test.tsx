import { useQuery } from '@connectrpc/connect-query';
import { Alert, Code, NativeSelect, Text } from '@mantine/core';
import { useState } from 'react';
import { PayloadsService } from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import {
  type Delivery,
  DeliveryState,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { adviceOf, answerText } from '../deliveries/advice.ts';
import { isBeingSent, isSuccess } from '../deliveries/delivery.ts';
import { TEST_REFRESH_MS, TestDeliveryResult } from '../deliveries/test-delivery-result.tsx';
import { isFailing } from './webhook.ts';

/**
 * Sends an example of an event to one webhook.
 *
 * @param o.onTested called with the id of its delivery.
 */
export function SendTest(o: {
  readonly webhook: Subscription;
  readonly onClose: () => void;
  readonly onTested: (deliveryId: string) => void;
}) {
  const { webhook } = o;
  const [trigger, setTrigger] = useState(webhook.trigger);
  const { data } = useQuery(PayloadsService.method.listEventTypes, {}, { staleTime: Infinity });
  const { run, isPending, error } = useWrite(WebhooksService.method.sendTest, {
    inline: true,
    onSuccess: ({ delivery }) => {
      o.onClose();
      if (delivery) o.onTested(delivery.id);
    },
  });
  const triggers = data?.topics.find(({ topic }) => topic === webhook.topic)?.delivers ?? [trigger];
  return (
    <FormModal
      title="Send a test event"
      onClose={o.onClose}
      submit="Send the test"
      pending={isPending}
      error={error}
      onSubmit={() => run({ subscriptionId: webhook.id, trigger })}
    >
      <NativeSelect
        label="Event"
        data={triggers}
        value={trigger}
        onChange={({ currentTarget }) => setTrigger(currentTarget.value)}
        data-autofocus
      />
      <Text size="sm" c="dimmed">
        An example of the event goes to {webhook.url}, signed like a real one. No return changes.
        This page then says what your system answered.
      </Text>
    </FormModal>
  );
}

/** How often a test is read that waits for other deliveries of its webhook. Milliseconds. */
const LATER_MS = 15_000;

/**
 * What became of a test event that the reader sent from this page. The warning of a failing webhook stands below: when it
 * says already what the receiver answered, the notice does not say it again.
 */
export function TestNotice(o: {
  readonly webhook: Subscription;
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
  return delivery.attempts.length > 0 ? false : LATER_MS;
}

/** Whether the warning of the webhook says the same as the test: that of another delivery may fail in the same way. */
function isInWarning(delivery: Delivery | undefined, webhook: Subscription): boolean {
  const [attempt, failure] = [delivery?.attempts.at(-1), webhook.lastFailure];
  return (
    isFailing(webhook) &&
    attempt !== undefined &&
    failure !== undefined &&
    answerText(attempt) === answerText(failure)
  );
}

function headOf(
  delivery: Delivery | undefined,
  isSaid: boolean,
): readonly [color: string, title: string] {
  const attempt = delivery?.attempts.at(-1);
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
  const { trigger, state } = delivery;
  const lastAttempt = delivery.attempts.at(-1);
  return (
    <>
      {lastAttempt && !isSuccess(lastAttempt) && (
        <div>
          {isSaid
            ? 'The message below says why, and what to check.'
            : `${answerText(lastAttempt)}. ${adviceOf(lastAttempt)}`}
          {state === DeliveryState.WAITING && ' The service tries it again, like a real event.'}
        </div>
      )}
      An example of <Code>{trigger}</Code>: <TestDeliveryResult delivery={delivery} />
    </>
  );
}
