import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { Button, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import {
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { notifyDone } from '../../parts/notify.ts';
import { isDue, Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { GIVEN_UP, NOT_RECEIVED } from '../deliveries/delivery.ts';
import { isActive } from './webhook.ts';

/** The deliveries that a webhook has not received. */
export interface Missed {
  readonly total: number;
  /** Waiting or held. */
  readonly waiting: number;
  /** All attempts failed, or they were held for too long. */
  readonly givenUp: number;
  /** Whether there are more than were counted. */
  readonly isMore: boolean;
  /** When the oldest of them happened. */
  readonly since: Timestamp | undefined;
}

/** Counts what a webhook has not received. Without the right to read the log, only what waits is known. */
export function useMissed({ id: subscriptionId, backlog }: Subscription): Missed {
  const { listDeliveries } = WebhooksService.method;
  const mayList = useSession().can(listDeliveries);
  const { data } = useQuery(
    listDeliveries,
    { subscriptionId, states: GIVEN_UP, pageSize: 1, includeCount: true },
    { enabled: mayList, refetchInterval: 15_000 },
  );
  const waiting = backlog?.count ?? 0;
  const { count: givenUp = 0, more = false, oldestAt } = data?.count ?? {};
  return {
    total: waiting + givenUp,
    waiting,
    givenUp,
    isMore: (backlog?.more ?? false) || (more && givenUp > 0),
    since: earlier(backlog?.oldestAt, oldestAt),
  };
}

function earlier(one: Timestamp | undefined, other: Timestamp | undefined): Timestamp | undefined {
  if (!one || !other) return one ?? other;
  return one.seconds <= other.seconds ? one : other;
}

interface MissedProps {
  readonly webhook: Subscription;
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
          <Time at={missed.since} />: {partsText(missed, isActive(webhook))}
        </Text>
        <NextAttempt webhook={webhook} />{' '}
        <Link to="/deliveries" search={{ webhook: String(webhook.id), state: NOT_RECEIVED }}>
          Show them in the log
        </Link>
      </div>
      {isActive(webhook) && <SendAll webhook={webhook} missed={missed} onAsk={onAsk} />}
    </Group>
  );
}

/** `18 are still tried, 2 were given up.` */
function partsText({ waiting, givenUp }: Missed, isTried: boolean): string {
  const goesOn = isTried ? 'still tried' : 'held until you activate the webhook';
  const parts = [
    ...(waiting > 0 ? [count(waiting, `is ${goesOn}`, `are ${goesOn}`)] : []),
    ...(givenUp > 0 ? [count(givenUp, 'was given up', 'were given up')] : []),
  ];
  return `${parts.join(', ')}.`;
}

function NextAttempt({ webhook }: { readonly webhook: Subscription }) {
  const { nextAttemptAt: at, count: waiting = 0 } = webhook.backlog ?? {};
  const pausedSince = webhook.health?.pausedSince;
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

/** Sends the waiting deliveries of a webhook now, and not at their next attempt. */
function useRetryWaiting({ id: subscriptionId, health }: Subscription) {
  const { run, isPending } = useWrite(WebhooksService.method.retryDeliveries, {
    onSuccess: (sent) =>
      notifyDone(
        health?.pausedSince
          ? 'One delivery tries the address now. The others follow as soon as it succeeds.'
          : doneText(sent),
      ),
  });
  return { isPending, run: () => run({ subscriptionId }) };
}

function doneText({ count: sent, more }: { readonly count: number; readonly more: boolean }) {
  if (sent === 0) return 'Nothing waits for a later attempt.';
  const text = `${count(sent, 'delivery is', 'deliveries are')} sent now.`;
  return more ? `${text} More wait: send again.` : text;
}
