import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  type CreateSubscriptionResponse,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Copyable } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog/dialog.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { DescriptionField, EqualToChosen, EqualWebhooks, PairFields, UrlField } from './fields.tsx';

const FIRST_PAIR = { trigger: 'return.closed', topic: 'return' };

/** The form of a new webhook, and then its signing secret. */
export function CreateWebhook({ onClose }: { readonly onClose: () => void }) {
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [pair, setPair] = useState(FIRST_PAIR);
  const [created, setCreated] = useState<CreateSubscriptionResponse>();
  const { run, isPending, error } = useWrite(WebhooksService.method.createSubscription, {
    inline: true,
    onSuccess: setCreated,
  });
  if (created) return <Created created={created} onClose={onClose} />;
  return (
    <FormModal
      title="Add a webhook"
      onClose={onClose}
      submit="Add the webhook"
      pending={isPending}
      error={error}
      fields={['url', 'description', 'topic', 'trigger']}
      onSubmit={() => run({ url, description, ...pair })}
    >
      <UrlField value={url} onChange={setUrl} error={error} />
      <DescriptionField value={description} onChange={setDescription} error={error} />
      <PairFields value={pair} onChange={setPair} error={error} />
      <EqualToChosen chosen={{ url, ...pair }} />
    </FormModal>
  );
}

function Created(o: {
  readonly created: CreateSubscriptionResponse;
  readonly onClose: () => void;
}) {
  const navigate = useNavigate();
  const id = o.created.subscription?.id ?? 0n;
  const open = () => {
    o.onClose();
    void navigate({ to: '/webhooks/$webhookId', params: { webhookId: String(id) } });
  };
  return (
    <Dialog title="The webhook is active" sticky onClose={o.onClose}>
      <Stack>
        <Text size="sm">
          Your system verifies with this secret that a request comes from us. Treat it like a
          password.
        </Text>
        <Alert color="blue" title="Signing secret">
          <Copyable value={o.created.secret} label="the signing secret" />
        </Alert>
        <EqualWebhooks ids={o.created.equalSubscriptionIds} />
        <Group justify="flex-end">
          <Button onClick={open}>Open the webhook and send a test</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
