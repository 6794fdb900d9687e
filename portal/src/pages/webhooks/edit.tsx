import { Text } from '@mantine/core';
import { useState } from 'react';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { newActionKey, useWrite } from '../../api/use-write.ts';
import { confirm } from '../../parts/confirm.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { isDue, timeText } from '../../parts/time.tsx';
import { count } from '../../words.ts';
import { UrlField } from './create.tsx';
import { PairFields } from './pair-fields.tsx';
import { useRetryWaiting } from './retry-waiting.ts';
import { waitingText } from './what-waits.tsx';

export function EditWebhook(o: { readonly webhook: Webhook; readonly onClose: () => void }) {
  const { webhook } = o;
  const [url, setUrl] = useState(webhook.url);
  const [pair, setPair] = useState({ topic: webhook.topic, trigger: webhook.trigger });
  const { waiting = 0, nextAttemptAt } = webhook.health ?? {};
  const isMoved = waiting > 0 && url !== webhook.url;
  const retry = useRetryWaiting(webhook);
  const { run, isPending, error } = useWrite(WebhooksService.method.updateWebhook, {
    done: 'The webhook is changed.',
    inline: true,
    onSuccess: () => {
      o.onClose();
      if (isMoved && webhook.status === 'active') {
        confirm({
          title: 'Send what waits now?',
          text: `${waitingText(webhook)} for the next attempt${isDue(nextAttemptAt) ? '' : `, which is at ${timeText(nextAttemptAt)}`}. All go to the new address.`,
          action: 'Send what waits now',
          onConfirm: retry.run,
        });
      }
    },
  });
  const submit = () => run(changeOf(webhook, { url, ...pair }), changeOf(webhook, webhook));
  return (
    <FormModal
      title={`Edit webhook ${webhook.id}`}
      onClose={o.onClose}
      submit="Save"
      pending={isPending}
      error={error}
      fields={['url', 'topic', 'trigger']}
      onSubmit={submit}
    >
      <UrlField value={url} onChange={setUrl} error={error} />
      <PairFields value={pair} onChange={setPair} error={error} />
      <Text size="sm" c="dimmed">
        {isMoved
          ? `${count(waiting, 'delivery', 'deliveries')} that wait will go to the new address.`
          : 'Deliveries that wait go to the new address. A new event or topic applies to later events.'}
      </Text>
    </FormModal>
  );
}

function changeOf(
  { id: webhookId }: Webhook,
  { url, topic, trigger }: Pick<Webhook, 'url' | 'topic' | 'trigger'>,
) {
  return { webhookId, idempotencyKey: newActionKey(), url, topic, trigger };
}
