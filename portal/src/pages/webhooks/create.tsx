import { Alert, Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  type CreateWebhookResponse,
  WebhooksService,
} from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { Copyable } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { tooLong } from '../../parts/too-long.ts';
import { visible } from '../../parts/visible.ts';
import { EqualToChosen, EqualWebhooks } from './equal.tsx';
import { PairFields } from './pair-fields.tsx';

const FIRST_PAIR = { trigger: 'return.closed', topic: 'return' };

/** The form of a new webhook, and then its signing secret. */
export function CreateWebhook({ onClose }: { readonly onClose: () => void }) {
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [pair, setPair] = useState(FIRST_PAIR);
  const [created, setCreated] = useState<CreateWebhookResponse>();
  const { run, isPending, error } = useWrite(WebhooksService.method.createWebhook, {
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
      onSubmit={() =>
        run({
          url,
          description,
          ...pair,
        })
      }
    >
      <UrlField value={url} onChange={setUrl} error={error} />
      <DescriptionField value={description} onChange={setDescription} error={error} />
      <PairFields value={pair} onChange={setPair} error={error} />
      <EqualToChosen chosen={{ url, ...pair }} />
    </FormModal>
  );
}

interface FieldProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error: unknown;
}

export function UrlField(o: FieldProps) {
  return (
    <TextInput
      label="Address"
      description="The receiver must answer with a status of 200 to 299 within 15 seconds."
      placeholder="https://example.com/returns"
      type="url"
      required
      data-autofocus
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(visible(currentTarget.value))}
      error={tooLong(o.value, 2_048) ?? fieldError(o.error, 'url')}
    />
  );
}

export function DescriptionField(o: FieldProps) {
  return (
    <TextInput
      label="Description"
      description="What it is for, so that your team tells it from others. Only the portal shows it; your system does not get it."
      placeholder="Warehouse system"
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      error={tooLong(o.value, 200) ?? fieldError(o.error, 'description')}
    />
  );
}

function Created(o: { readonly created: CreateWebhookResponse; readonly onClose: () => void }) {
  const navigate = useNavigate();
  const id = o.created.webhook?.id ?? '0';
  const open = () => {
    o.onClose();
    void navigate({ to: '/webhooks/$webhookId', params: { webhookId: id } });
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
        <EqualWebhooks ids={o.created.equalWebhookIds} />
        <Group justify="flex-end">
          <Button onClick={open}>Open the webhook and send a test</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
