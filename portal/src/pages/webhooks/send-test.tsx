import { useQuery } from '@connectrpc/connect-query';
import { NativeSelect, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { newActionKey, useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';

/** Sends an example of an event to one webhook, and opens its delivery. */
export function SendTest(o: { readonly webhook: Webhook; readonly onClose: () => void }) {
  const { webhook } = o;
  const [trigger, setTrigger] = useState(webhook.trigger);
  const { data } = useQuery(WebhooksService.method.listEventTypes, {}, { staleTime: Infinity });
  const navigate = useNavigate();
  const { run, isPending, error } = useWrite(WebhooksService.method.sendTest, {
    inline: true,
    onSuccess: ({ delivery }) => {
      o.onClose();
      if (!delivery) return;
      void navigate({ to: '/deliveries/$deliveryId', params: { deliveryId: delivery.id } });
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
      onSubmit={() => run({ idempotencyKey: newActionKey(), webhookId: webhook.id, trigger })}
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
        The next page shows what your system answers.
      </Text>
    </FormModal>
  );
}
