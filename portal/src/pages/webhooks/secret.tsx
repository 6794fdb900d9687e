import { timestampMs } from '@bufbuild/protobuf/wkt';
import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState } from 'react';
import {
  type Secret,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { Copyable } from '../../parts/copy.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time/time.tsx';

const Rotate = lazyPart(async () => (await import('./rotate-secret.tsx')).RotateSecret);

/** The signing secrets: hidden until the user asks, with the last time when somebody saw them. */
export function SecretPanel({ webhook }: { readonly webhook: Subscription }) {
  const [shown, setSecrets] = useState<readonly Secret[]>();
  const isOld = isBefore(shown?.[0], webhook);
  const secrets = isOld ? undefined : shown;
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
        {secrets ? (
          <Secrets secrets={webhook.formerSecretsUntil ? secrets : secrets.slice(0, 1)} />
        ) : (
          <Text size="sm">whsec_••••••••••••••••</Text>
        )}
        {isOld && (
          <Text size="sm" role="status">
            Somebody has made a newer secret since you looked. Show it again.
          </Text>
        )}
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
              onClick={() => run({ subscriptionId: webhook.id })}
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

/** Whether the webhook has a newer secret than this one, because somebody else rotated it. */
function isBefore(secret: Secret | undefined, { newestSecretAt }: Subscription): boolean {
  const madeAt = secret?.createdAt;
  return !!madeAt && !!newestSecretAt && timestampMs(madeAt) < timestampMs(newestSecretAt);
}

/** During an overlap: ends the old secret after a question. */
function EndOld(o: { readonly webhook: Subscription; readonly onEnded: () => void }) {
  const { id: subscriptionId, formerSecretsUntil } = o.webhook;
  const { endFormerSecrets } = WebhooksService.method;
  const { send, isPending } = useWrite(endFormerSecrets, {
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
      onConfirm: () => send({ subscriptionId }),
    });
  return (
    <Button size="xs" variant="default" loading={isPending} onClick={ask}>
      End the old secret
    </Button>
  );
}

/** The overlap after a rotation. */
function Overlap({ webhook: { formerSecretsUntil: until } }: { readonly webhook: Subscription }) {
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

function LastShown({ webhook }: { readonly webhook: Subscription }) {
  const { secretShownAt: at, secretShownTo: by } = webhook;
  return (
    <Text size="sm" c="dimmed">
      {at ? (
        <>
          Last shown to {by?.name || by?.id || 'somebody'} on <Time at={at} />. The audit log
          records every time.
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
