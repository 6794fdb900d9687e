import { Badge, Code, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Delivery } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Status } from '../../parts/status.tsx';
import { isDue, Time } from '../../parts/time.tsx';
import { resultText } from './result.ts';

const COLUMNS: readonly Column<Delivery>[] = [
  {
    title: 'Event',
    cell: ({ id, trigger, test, returnId }) => (
      <>
        <Group gap={6}>
          <Link to="/deliveries/$deliveryId" params={{ deliveryId: id }}>
            {trigger}
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
  },
  { title: 'State', cell: ({ state }) => <Status state={state} /> },
  { title: 'Last answer', cell: (delivery) => <LastAnswer delivery={delivery} /> },
  {
    title: 'Next attempt',
    cell: ({ nextAttemptAt }) =>
      isDue(nextAttemptAt) ? 'due' : <Time at={nextAttemptAt} as="relative" />,
  },
  { title: 'Happened', short: true, cell: ({ occurredAt }) => <Time at={occurredAt} as="exact" /> },
];

const WEBHOOK: Column<Delivery> = {
  title: 'Webhook',
  cell: ({ webhookId, lastAttempt }) => (
    <>
      <Link to="/webhooks/$webhookId" params={{ webhookId }} aria-label={`Webhook ${webhookId}`}>
        {webhookId}
      </Link>
      {lastAttempt && <SecondLine>{hostOf(lastAttempt.url)}</SecondLine>}
    </>
  ),
};

/** The host of the address to which the last attempt went. */
function hostOf(url: string): string {
  return URL.parse(url)?.host ?? '';
}

/** Deliveries, each a link to all about it. */
export function DeliveryTable(o: {
  readonly deliveries: readonly Delivery[];
  /** With the column of the webhook. */
  readonly ofAll?: boolean;
}) {
  if (o.deliveries.length === 0) return <Text c="dimmed">No deliveries.</Text>;
  const columns = o.ofAll ? [...COLUMNS.slice(0, 1), WEBHOOK, ...COLUMNS.slice(1)] : COLUMNS;
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
