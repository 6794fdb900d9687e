import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState } from 'react';
import {
  type Secret,
  type Webhook,
  WebhooksService,
} from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { confirm } from '../../parts/confirm.ts';
import { Copyable } from '../../parts/copy.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time.tsx';

const Rotate = lazyPart(async () => (await import('./rotate-secret.tsx')).RotateSecret);

/** The signing secrets: hidden until the user asks, with the last time when somebody saw them. */
export function SecretPanel({ webhook }: { readonly webhook: Webhook }) {
  const [secrets, setSecrets] = useState<readonly Secret[]>();
  const [rotating, { open, close }] = useDisclosure(false);
  const { run, isPending } = useWrite(WebhooksService.method.revealSecret, {
    onSuccess: (response) => setSecrets(response.secrets),
  });
  return (
    <Panel title="Signing secret">
      <Stack gap="sm" align="flex-start">
        <Text size="sm" c="dimmed">
          Your system verifies the header <code>webhook-signature</code> with it.
        </Text>
        <Overlap webhook={webhook} />
        {secrets ? <Secrets secrets={secrets} /> : <Text size="sm">whsec_••••••••••••••••</Text>}
        <LastShown webhook={webhook} />
        <Group gap="xs">
          {secrets ? (
            <Button size="xs" variant="default" onClick={() => setSecrets(undefined)}>
              Hide
            </Button>
          ) : (
            <Button
              size="xs"
              variant="default"
              loading={isPending}
              onClick={() => run({ webhookId: webhook.id })}
            >
              Show the secret
            </Button>
          )}
          <Button size="xs" variant="default" onClick={open}>
            Rotate
          </Button>
          <EndOld webhook={webhook} onEnded={() => setSecrets(undefined)} />
        </Group>
      </Stack>
      {rotating && <Rotate webhook={webhook} onClose={close} onRotated={setSecrets} />}
    </Panel>
  );
}

/** During an overlap: ends the old secret after a question. */
function EndOld(o: { readonly webhook: Webhook; readonly onEnded: () => void }) {
  const { id: webhookId, formerSecretsUntil } = o.webhook;
  const { endEarlierSecrets } = WebhooksService.method;
  const { send, isPending } = useWrite(endEarlierSecrets, {
    done: 'Only the newest secret signs now.',
    onSuccess: o.onEnded,
  });
  if (!formerSecretsUntil) return null;
  const ask = () =>
    confirm({
      title: 'End the old secret now?',
      text: 'Requests have only the signature of the newest secret from now on. If your system does not have it yet, it rejects them, and we repeat them. This cannot be undone.',
      action: 'End the old secret',
      danger: true,
      onConfirm: () => send({ webhookId }),
    });
  return (
    <Button size="xs" variant="default" loading={isPending} onClick={ask}>
      End the old secret
    </Button>
  );
}

/** The overlap after a rotation. */
function Overlap({ webhook: { formerSecretsUntil: until } }: { readonly webhook: Webhook }) {
  if (!until) return null;
  return (
    <Alert color="blue" title="Two secrets sign at the moment">
      Every request has a signature of the old and of the new secret, until <Time at={until} /> (
      <Time at={until} as="relative" />
      ). Put the new one into your system before that. If somebody else knows the old one, end it at
      once.
    </Alert>
  );
}

function LastShown({ webhook: { secretLastShown: shown } }: { readonly webhook: Webhook }) {
  return (
    <Text size="sm" c="dimmed">
      {shown ? (
        <>
          Last shown to {shown.by?.name || shown.by?.id || 'somebody'} on <Time at={shown.at} />.
          The audit log records every time.
        </>
      ) : (
        'Nobody has looked at it here yet. The audit log records every time.'
      )}
    </Text>
  );
}

/** The valid secrets. Each one but the newest has the time when it stops signing. */
function Secrets({ secrets }: { readonly secrets: readonly Secret[] }) {
  return (
    <Stack gap="xs" w="100%">
      {secrets.map(({ value, createdAt, expiresAt }, place) => (
        <div key={value}>
          <Copyable value={value} label={place === 0 ? 'the newest secret' : 'the old secret'} />
          <SecondLine>
            {place === 0 ? (
              <>
                Made on <Time at={createdAt} />
              </>
            ) : (
              <>
                Signs until <Time at={expiresAt} />, <Time at={expiresAt} as="relative" />
              </>
            )}
          </SecondLine>
        </div>
      ))}
    </Stack>
  );
}
