import { Checkbox, Text } from '@mantine/core';
import { useState } from 'react';
import {
  type Webhook,
  type WebhookHealth,
  WebhooksService,
} from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { newActionKey, useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { count } from '../../words.ts';
import { UrlField } from './create.tsx';
import { EqualToChosen } from './equal.tsx';
import { useMoveOthers } from './move-others.ts';
import { PairFields } from './pair-fields.tsx';
import { useSameAddress } from './same-address.tsx';

export function EditWebhook(o: { readonly webhook: Webhook; readonly onClose: () => void }) {
  const { webhook } = o;
  const [url, setUrl] = useState(webhook.url);
  const [pair, setPair] = useState({ topic: webhook.topic, trigger: webhook.trigger });
  const others = useSameAddress(webhook);
  const [isForOthers, setForOthers] = useState(false);
  const moveOthers = useMoveOthers();
  const { waiting = 0 } = webhook.health ?? {};
  const isActive = webhook.status === 'active';
  const isMoved = waiting > 0 && url !== webhook.url;
  const retry = useWrite(WebhooksService.method.retryDeliveries, {
    done: `${waitingText(webhook.health)} sent to the new address now.`,
  });
  const { run, isPending, error } = useWrite(WebhooksService.method.updateWebhook, {
    done: 'The webhook is changed.',
    inline: true,
    onSuccess: () => {
      o.onClose();
      // Otherwise what failed before waits for its next attempt, which may be hours later.
      if (isMoved && isActive) {
        retry.run({ webhookId: webhook.id, idempotencyKey: newActionKey() });
      }
      if (isForOthers && url !== webhook.url) void moveOthers(others, url);
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
      {others.length > 0 && url !== webhook.url && (
        <Checkbox
          checked={isForOthers}
          onChange={({ currentTarget }) => setForOthers(currentTarget.checked)}
          label={`Also change the address of ${count(others.length, 'other webhook', 'other webhooks')} with the old address`}
          description={others.map(({ id, trigger }) => `Webhook ${id} (${trigger})`).join(', ')}
        />
      )}
      <PairFields value={pair} onChange={setPair} error={error} />
      <EqualToChosen chosen={{ url, ...pair }} own={webhook.id} />
      <Text size="sm" c="dimmed">
        {isMoved
          ? `${waitingText(webhook.health)} sent to the new address ${isActive ? 'when you save' : 'when you activate the webhook'}.`
          : 'Deliveries that wait go to the new address. A new event or topic applies to later events.'}
      </Text>
    </FormModal>
  );
}

/** `3 deliveries that wait are` */
function waitingText({ waiting = 0, moreWaiting = false }: Partial<WebhookHealth> = {}): string {
  const text = count(waiting, 'delivery that waits is', 'deliveries that wait are');
  return moreWaiting ? `More than ${text}` : text;
}

function changeOf(
  { id: webhookId }: Webhook,
  { url, topic, trigger }: Pick<Webhook, 'url' | 'topic' | 'trigger'>,
) {
  return { webhookId, idempotencyKey: newActionKey(), url, topic, trigger };
}
