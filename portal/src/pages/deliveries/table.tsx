import { useQuery } from '@connectrpc/connect-query';
import { Badge, Code, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import {
  type Delivery,
  DeliveryState,
  DeliveryStateSchema,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { EventName } from '../../parts/event-name.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { isDue, Time } from '../../parts/time/time.tsx';
import { wordOf } from '../../words.ts';
import { ALL_WEBHOOKS, useWebhookNames } from '../webhooks/use-webhooks.ts';
import { hostOf } from '../webhooks/webhook.ts';
import { resultText } from './delivery.ts';

const SHOWN = 8;

/** The newest deliveries of one webhook. */
export function RecentDeliveries({ webhookId }: { readonly webhookId: bigint }) {
  const query = useQuery(
    WebhooksService.method.listDeliveries,
    { subscriptionId: webhookId, pageSize: SHOWN },
    { refetchInterval: 10_000 },
  );
  return (
    <Panel
      title="Newest deliveries"
      actions={
        <Link to="/deliveries" search={{ webhook: String(webhookId) }}>
          All deliveries
        </Link>
      }
    >
      <Loaded query={query} rows={SHOWN}>
        {({ deliveries }) => <DeliveryTable deliveries={deliveries} />}
      </Loaded>
    </Panel>
  );
}

/** Deliveries, each a link to all about it. */
export function DeliveryTable(o: {
  readonly deliveries: readonly Delivery[];
  /** Whether the table has the column of the webhook. */
  readonly ofAll?: boolean;
}) {
  const webhooks = useWebhooksOf(o.deliveries);
  if (o.deliveries.length === 0) return <Text c="dimmed">No deliveries.</Text>;
  const columns = [
    EVENT,
    ...(o.ofAll ? [WEBHOOK] : []),
    ...ANSWER,
    nextAttempt(webhooks),
    HAPPENED,
  ];
  return (
    <DataTable
      caption="Deliveries"
      linked
      cards
      columns={columns}
      rows={o.deliveries}
      rowKey={({ id }) => id}
    />
  );
}

const EVENT: Column<Delivery> = {
  title: 'Event',
  cell: ({ id, trigger, test, returnId }) => (
    <>
      <Group gap={6}>
        <Link to="/deliveries/$deliveryId" params={{ deliveryId: id }}>
          <EventName name={trigger} />
        </Link>
        {test && (
          <Badge size="xs" variant="default">
            Test
          </Badge>
        )}
      </Group>
      <SecondLine>{returnId === 0n ? id : `return ${returnId}`}</SecondLine>
    </>
  ),
};

const WEBHOOK: Column<Delivery> = {
  title: 'Webhook',
  cell: (delivery) => <WebhookOf delivery={delivery} />,
};

/** The webhook of a delivery, and the host of the address to which the last attempt went. */
function WebhookOf({ delivery: { subscriptionId, attempts } }: { readonly delivery: Delivery }) {
  const { description, url } = useWebhookNames()(subscriptionId);
  const second = [description && `webhook ${subscriptionId}`, hostOf(attempts.at(-1)?.url ?? url)];
  return (
    <>
      <Link
        to="/webhooks/$webhookId"
        params={{ webhookId: String(subscriptionId) }}
        aria-label={description === '' ? `Webhook ${subscriptionId}` : undefined}
      >
        {description || String(subscriptionId)}
      </Link>
      <SecondLine>{second.filter((text) => text !== '').join(', ')}</SecondLine>
    </>
  );
}

const ANSWER: readonly Column<Delivery>[] = [
  { title: 'State', cell: ({ state }) => <Status state={wordOf(DeliveryStateSchema, state)} /> },
  { title: 'Last answer', cell: (delivery) => <LastAnswer delivery={delivery} /> },
];

function LastAnswer({ delivery }: { readonly delivery: Delivery }) {
  const last = delivery.attempts.at(-1);
  if (!last) return <>–</>;
  return (
    <>
      <Code>{resultText(last)}</Code>
      <SecondLine>
        attempt {last.number}, {last.durationMs} ms
      </SecondLine>
    </>
  );
}

const HAPPENED: Column<Delivery> = {
  title: 'Happened',
  short: true,
  cell: ({ occurredAt }) => <Time at={occurredAt} as="exact" />,
};

/** As often as the log. Milliseconds. */
const REFRESH_MS = 20_000;

/**
 * The webhooks of deliveries, by their ids. They are read only while one of the deliveries waits: only then it matters
 * whether the webhook is paused.
 */
function useWebhooksOf(deliveries: readonly Delivery[]): ReadonlyMap<bigint, Subscription> {
  const { data } = useQuery(WebhooksService.method.listSubscriptions, ALL_WEBHOOKS, {
    enabled: deliveries.some(({ state }) => state === DeliveryState.WAITING),
    refetchInterval: REFRESH_MS,
  });
  return new Map(data?.subscriptions.map((one) => [one.id, one]));
}

function nextAttempt(webhooks: ReadonlyMap<bigint, Subscription>): Column<Delivery> {
  return {
    title: 'Next attempt',
    cell: (delivery) => (
      <NextAttempt delivery={delivery} webhook={webhooks.get(delivery.subscriptionId)} />
    ),
  };
}

/**
 * When a delivery is tried next. While its webhook is paused, its own time does not count: single deliveries of the
 * webhook are tried, and the others follow when one succeeds.
 */
function NextAttempt(o: {
  readonly delivery: Delivery;
  readonly webhook: Subscription | undefined;
}) {
  const { state, nextAttemptAt } = o.delivery;
  if (state === DeliveryState.HELD) return <>when the webhook is active again</>;
  if (!nextAttemptAt) return <>–</>;
  if (!o.webhook?.health?.pausedSince) {
    return isDue(nextAttemptAt) ? <>due</> : <Time at={nextAttemptAt} as="relative" />;
  }
  const at = o.webhook.backlog?.nextAttemptAt ?? nextAttemptAt;
  return (
    <>
      paused: the address fails
      <SecondLine>
        one delivery is tried {isDue(at) ? 'now' : <Time at={at} as="relative" />}
      </SecondLine>
    </>
  );
}
