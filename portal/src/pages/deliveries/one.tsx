import { useQuery } from '@connectrpc/connect-query';
import { Alert, Anchor, Badge, Button, Stack } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  type Delivery,
  DeliveryState,
  DeliveryStateSchema,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Copyable } from '../../parts/copy.tsx';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { isDue, Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { wordOf } from '../../words.ts';
import { useWebhookNames } from '../webhooks/use-webhooks.ts';
import { webhookText } from '../webhooks/webhook.ts';
import { GIVEN_UP } from './delivery.ts';
import { DeliveryTable } from './table.tsx';

const Attempts = lazyPart(async () => (await import('./attempts.tsx')).Attempts, 6);
const JsonText = lazyPart(async () => (await import('../../parts/text/json-text.tsx')).JsonText, 8);

const route = getRouteApi('/deliveries/$deliveryId');

/** Refreshes a delivery that is not finished. Milliseconds. */
const REFRESH_MS = 3_000;

const BACK = (
  <Anchor component={Link} to="/deliveries" size="sm">
    ← All deliveries
  </Anchor>
);

export function DeliveryPage() {
  const { deliveryId } = route.useParams();
  const { getDelivery } = WebhooksService.method;
  const query = useQuery(
    getDelivery,
    { deliveryId, includeBody: true },
    {
      refetchInterval: ({ state }) =>
        state.data?.delivery?.state === DeliveryState.WAITING ? REFRESH_MS : false,
    },
  );
  return (
    <Loaded query={query} title="Delivery" back={BACK}>
      {({ delivery, related }) => delivery && <Content delivery={delivery} related={related} />}
    </Loaded>
  );
}

function Content(o: {
  readonly delivery: Delivery;
  /** The deliveries of the same event to other webhooks. */
  readonly related: readonly Delivery[];
}) {
  const { delivery, related } = o;
  const payload = new TextDecoder().decode(delivery.body);
  return (
    <>
      {BACK}
      <PageHead
        title={`Delivery of ${delivery.trigger}`}
        about={
          <>
            <Status state={wordOf(DeliveryStateSchema, delivery.state)} />{' '}
            {delivery.test && <Badge variant="default">Test</Badge>}
          </>
        }
        actions={<SendAgain delivery={delivery} />}
      />
      <Stack gap="md">
        <NextStep delivery={delivery} />
        <Panel title="About this delivery">
          <Facts rows={factsOf(delivery)} />
          <Meanings of={['Event', 'Topic', 'Payload']} />
        </Panel>
        <Attempts attempts={delivery.attempts} />
        <Panel title="Payload" about="The body of every attempt, byte for byte the same.">
          {payload === '' ? (
            'The payload was removed. It is kept for 30 days, or until the data of the shopper is deleted.'
          ) : (
            <JsonText text={payload} label="The payload" />
          )}
        </Panel>
        {related.length > 0 && (
          <Panel title="The same event to other webhooks">
            <DeliveryTable deliveries={related} ofAll />
          </Panel>
        )}
      </Stack>
    </>
  );
}

function factsOf(delivery: Delivery) {
  const { returnId, revision, subscriptionId: webhookId } = delivery;
  return [
    ['Webhook', <WebhookLink key="webhook" webhookId={webhookId} />],
    ['Happened', <Time key="at" at={delivery.occurredAt} as="exact" />],
    ['Ended', delivery.finishedAt && <Time key="end" at={delivery.finishedAt} as="exact" />],
    ['webhook-id', <Copyable key="id" value={delivery.id} label="the webhook-id" />],
    ['Event id', <Copyable key="event" value={delivery.eventId} label="the event id" />],
    ['Topic', delivery.topic],
    ['Payload version', delivery.apiVersion],
    [
      'Return',
      returnId !== 0n && !delivery.test ? (
        <Link key="return" to="/returns/$returnId" params={{ returnId: String(returnId) }}>
          Return {String(returnId)}
        </Link>
      ) : undefined,
    ],
    ['Revision', revision === 0n ? undefined : String(revision)],
  ] as const;
}

function WebhookLink({ webhookId }: { readonly webhookId: bigint }) {
  const named = useWebhookNames();
  return (
    <Link to="/webhooks/$webhookId" params={{ webhookId: String(webhookId) }}>
      {webhookText(named(webhookId), { word: 'Webhook' })}
    </Link>
  );
}

/** What happens next, or what the reader can do. */
function NextStep({ delivery }: { readonly delivery: Delivery }) {
  const { state } = delivery;
  if (state === DeliveryState.WAITING) return <NextAttempt delivery={delivery} />;
  if (state === DeliveryState.HELD) {
    return (
      <Alert color="yellow">
        It waits because its webhook is inactive. It goes on when you activate the webhook, and
        expires after 30 days.
      </Alert>
    );
  }
  if (state === DeliveryState.EXHAUSTED) {
    return (
      <Alert color="red">
        All attempts failed, over about three days. Repair your address, then send it again.
      </Alert>
    );
  }
  if (state === DeliveryState.EXPIRED) {
    return (
      <Alert color="gray">
        Its webhook was inactive for 30 days, so that the service gave up. You can send it again.
      </Alert>
    );
  }
  if (state === DeliveryState.DROPPED) {
    return (
      <Alert color="gray">
        Its webhook was deleted before your system received it, so that it cannot be sent any more.
      </Alert>
    );
  }
  return null;
}

/**
 * When a waiting delivery is tried. While the address fails so often that only single deliveries are tried, its own time
 * does not count, and the webhook's does.
 */
function NextAttempt({ delivery }: { readonly delivery: Delivery }) {
  const { subscriptionId, nextAttemptAt } = delivery;
  const tried = delivery.attempts.at(-1)?.number ?? 0;
  const { data } = useQuery(
    WebhooksService.method.getSubscription,
    { subscriptionId, includeBacklog: true },
    { refetchInterval: REFRESH_MS },
  );
  const isPaused = data?.subscription?.health?.pausedSince !== undefined;
  const at = isPaused ? data.subscription?.backlog?.nextAttemptAt : nextAttemptAt;
  return (
    <Alert color="blue">
      {isPaused
        ? 'Its webhook fails, so that only one of its deliveries is tried from time to time. When one succeeds, this one follows. The next try '
        : `Attempt ${tried + 1} of this delivery `}
      {at && !isDue(at) ? (
        <>
          follows <Time at={at} as="relative" />, at <Time at={at} as="exact" />.
        </>
      ) : (
        'follows now.'
      )}{' '}
      {tried > 0 && (
        <Link to="/webhooks/$webhookId" params={{ webhookId: String(subscriptionId) }}>
          Send what waits now, on the page of its webhook
        </Link>
      )}
    </Alert>
  );
}

function SendAgain({ delivery }: { readonly delivery: Delivery }) {
  const { can } = useSession();
  const { replayDelivery } = WebhooksService.method;
  const { run, isPending } = useWrite(replayDelivery, { done: 'It is sent again.' });
  const isEnded = [DeliveryState.DELIVERED, ...GIVEN_UP].includes(delivery.state);
  if (!can(replayDelivery) || !isEnded) return null;
  return (
    <Button
      loading={isPending}
      title="With the same webhook-id and the same payload"
      onClick={() => run({ deliveryId: delivery.id })}
    >
      Send again
    </Button>
  );
}
