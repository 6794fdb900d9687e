import { useQuery } from '@connectrpc/connect-query';
import { NativeSelect, Text } from '@mantine/core';
import { useState } from 'react';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';

/**
 * Sends an example of an event to one webhook.
 *
 * @param o.onTested called with the id of its delivery.
 */
export function SendTest(o: {
  readonly webhook: Webhook;
  readonly onClose: () => void;
  readonly onTested: (deliveryId: string) => void;
}) {
  const { webhook } = o;
  const [trigger, setTrigger] = useState(webhook.trigger);
  const { data } = useQuery(WebhooksService.method.listEventTypes, {}, { staleTime: Infinity });
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
      onSubmit={() => run({ webhookId: webhook.id, trigger })}
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
