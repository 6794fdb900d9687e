import { Button, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { isDue, Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { NOT_RECEIVED } from '../deliveries/states.ts';
import { useRetryWaiting } from './retry-waiting.ts';
import type { Missed } from './use-missed.ts';

interface MissedProps {
  readonly webhook: Webhook;
  readonly missed: Missed;
  /** Called when the user wants to send what was given up, too. The page asks first, because a job sends it. */
  readonly onAsk: () => void;
}

/** How many deliveries were not received and since when, what happens to them by itself, and a button for all. */
export function MissedDeliveries({ webhook, missed, onAsk }: MissedProps) {
  if (missed.total === 0) return null;
  return (
    <Group justify="space-between" gap="xs">
      <div>
        <Text size="sm" fw={600} component="div">
          {missed.isMore && 'At least '}
          {count(missed.total, 'delivery', 'deliveries')} not received since{' '}
          <Time at={missed.since} />: {partsText(missed, webhook)}
        </Text>
        <NextAttempt webhook={webhook} />{' '}
        <Link to="/deliveries" search={{ webhook: webhook.id, state: NOT_RECEIVED }}>
          Show them in the log
        </Link>
      </div>
      {webhook.status === 'active' && <SendAll webhook={webhook} missed={missed} onAsk={onAsk} />}
    </Group>
  );
}

/** `18 are still tried, 2 were given up.` */
function partsText({ waiting, givenUp }: Missed, { status }: Webhook): string {
  const goesOn = status === 'active' ? 'still tried' : 'held until you activate the webhook';
  const parts = [
    ...(waiting > 0 ? [count(waiting, `is ${goesOn}`, `are ${goesOn}`)] : []),
    ...(givenUp > 0 ? [count(givenUp, 'was given up', 'were given up')] : []),
  ];
  return `${parts.join(', ')}.`;
}

function NextAttempt({ webhook: { health } }: { readonly webhook: Webhook }) {
  const { nextAttemptAt: at, pausedSince, waiting = 0 } = health ?? {};
  if (at === undefined) return null;
  const rest = pausedSince && ' It tries one delivery. The others follow as soon as one succeeds.';
  if (isDue(at)) return <>The next attempt is due now.{rest}</>;
  return (
    <>
      {/* Each delivery has its own time, which its page shows. */}
      {waiting > 1 && !pausedSince ? 'The first of them is tried' : 'The next attempt is'} at{' '}
      <Time at={at} /> (<Time at={at} as="relative" />
      ).{rest}
    </>
  );
}

function SendAll({ webhook, missed, onAsk }: MissedProps) {
  const { can } = useSession();
  const { retryDeliveries, startReplay } = WebhooksService.method;
  const { isPending, run } = useRetryWaiting(webhook);
  if (!can(retryDeliveries) || !can(startReplay)) return null;
  const ask = missed.givenUp > 0;
  return (
    <Button size="xs" variant="default" loading={isPending} onClick={ask ? onAsk : run}>
      {ask ? 'Send all of them again' : 'Send what waits now'}
    </Button>
  );
}
