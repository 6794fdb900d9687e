import { Alert, Button, Group } from '@mantine/core';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { isDue, Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { useRetryWaiting } from './retry-waiting.ts';

interface WebhookProps {
  readonly webhook: Webhook;
}

/** Says that deliveries wait for a later attempt. */
export function WaitingAlert({ webhook }: WebhookProps) {
  const { waiting = 0, nextAttemptAt, pausedSince } = webhook.health ?? {};
  const isLater = nextAttemptAt !== undefined && !isDue(nextAttemptAt);
  // What is due is sent at this moment, and needs nobody.
  if (waiting === 0 || !(isLater || pausedSince)) return null;
  return (
    <Alert color="blue" role="status">
      <WhatWaits webhook={webhook} />
    </Alert>
  );
}

/** `4 deliveries wait` */
export function waitingText({ health }: Webhook): string {
  const { waiting = 0, moreWaiting = false } = health ?? {};
  if (moreWaiting) return `More than ${count(waiting, 'delivery', 'deliveries')} wait`;
  return `${count(waiting, 'delivery waits', 'deliveries wait')}`;
}

/** How many deliveries wait, when the next attempt is, and a button that sends them now. */
export function WhatWaits({ webhook }: WebhookProps) {
  const may = useSession().can(WebhooksService.method.retryDeliveries);
  const { isPending, run } = useRetryWaiting(webhook);
  if (!webhook.health?.waiting) return null;
  return (
    <Group justify="space-between" gap="xs">
      <span>
        {waitingText(webhook)}. <NextAttempt webhook={webhook} />
      </span>
      {may && (
        <Button size="xs" variant="default" loading={isPending} onClick={run}>
          Send what waits now
        </Button>
      )}
    </Group>
  );
}

function NextAttempt({ webhook: { health } }: WebhookProps) {
  const { nextAttemptAt: at, pausedSince } = health ?? {};
  const rest = pausedSince && ' It tries one delivery. The others follow as soon as one succeeds.';
  if (isDue(at)) return <>The next attempt is due now.{rest}</>;
  return (
    <>
      The next attempt is at <Time at={at} /> (<Time at={at} as="relative" />
      ).{rest}
    </>
  );
}
