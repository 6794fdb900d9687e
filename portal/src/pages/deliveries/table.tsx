import { Badge, Code, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Delivery } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import type { WebhookHealth } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { EventName } from '../../parts/event-name.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { hostOf } from '../webhooks/name.ts';
import { useWebhookNames } from '../webhooks/use-webhook-names.ts';
import { NextAttempt, useHealthOf } from './next-attempt.tsx';
import { resultText } from './result.ts';

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
      <SecondLine>{returnId === '0' ? id : `return ${returnId}`}</SecondLine>
    </>
  ),
};

const ANSWER: readonly Column<Delivery>[] = [
  { title: 'State', cell: ({ state }) => <Status state={state} /> },
  { title: 'Last answer', cell: (delivery) => <LastAnswer delivery={delivery} /> },
];

const HAPPENED: Column<Delivery> = {
  title: 'Happened',
  short: true,
  cell: ({ occurredAt }) => <Time at={occurredAt} as="exact" />,
};

function nextAttempt(health: ReadonlyMap<string, WebhookHealth>): Column<Delivery> {
  return {
    title: 'Next attempt',
    cell: (delivery) => <NextAttempt delivery={delivery} health={health.get(delivery.webhookId)} />,
  };
}

const WEBHOOK: Column<Delivery> = {
  title: 'Webhook',
  cell: (delivery) => <WebhookOf delivery={delivery} />,
};

/** The webhook of a delivery, and the host of the address to which the last attempt went. */
function WebhookOf({ delivery: { webhookId, lastAttempt } }: { readonly delivery: Delivery }) {
  const { description, url } = useWebhookNames()(webhookId);
  const second = [description && `webhook ${webhookId}`, hostOf(lastAttempt?.url ?? url)];
  return (
    <>
      <Link
        to="/webhooks/$webhookId"
        params={{ webhookId }}
        aria-label={description === '' ? `Webhook ${webhookId}` : undefined}
      >
        {description || webhookId}
      </Link>
      <SecondLine>{second.filter((text) => text !== '').join(', ')}</SecondLine>
    </>
  );
}

/** Deliveries, each a link to all about it. */
export function DeliveryTable(o: {
  readonly deliveries: readonly Delivery[];
  /** Whether the table has the column of the webhook. */
  readonly ofAll?: boolean;
}) {
  const health = useHealthOf(o.deliveries);
  if (o.deliveries.length === 0) return <Text c="dimmed">No deliveries.</Text>;
  const columns = [EVENT, ...(o.ofAll ? [WEBHOOK] : []), ...ANSWER, nextAttempt(health), HAPPENED];
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

function LastAnswer({ delivery }: { readonly delivery: Delivery }) {
  const { lastAttempt, attemptCount } = delivery;
  if (!lastAttempt) return <>–</>;
  return (
    <>
      <Code>{resultText(lastAttempt)}</Code>
      <SecondLine>
        attempt {attemptCount}, {lastAttempt.durationMs} ms
      </SecondLine>
    </>
  );
}
