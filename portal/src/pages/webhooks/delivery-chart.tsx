import { useQuery } from '@connectrpc/connect-query';
import { Center, Group, Skeleton, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import {
  type DeliveryHour,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Panel } from '../../parts/panel.tsx';
import { ErrorState } from '../../parts/states.tsx';
import { count, numberText } from '../../words.ts';
import styles from './delivery-chart.module.css';

/** Recharts is large, so that it is loaded only where a chart is. */
const Chart = lazy(() => import('./hour-chart.tsx'));

/** Pixels. */
const CHART_HEIGHT = 190;

const SPANS = [
  ['24', '24 hours'],
  ['72', '3 days'],
  ['168', '7 days'],
] as const;

/** Deliveries and failures by hour, of one webhook or of all. The span is a part of the address. */
export function DeliveryChart(o: {
  readonly from: '/webhooks' | '/webhooks/$webhookId';
  readonly webhookId?: bigint;
  readonly hours: string | undefined;
}) {
  const hours = SPANS.some(([span]) => span === o.hours) ? Number(o.hours) : 24;
  const query = useQuery(
    WebhooksService.method.getDeliveryStats,
    { subscriptionId: o.webhookId ?? 0n, hours },
    { refetchInterval: 30_000 },
  );
  return (
    <Panel
      title="Deliveries by hour"
      about={query.data && <Sums hours={query.data.hours} />}
      actions={
        <Group gap="md" component="nav" aria-label="Span of the chart">
          {SPANS.map(([span, title]) => (
            <Link
              key={span}
              from={o.from}
              to="."
              search={{ hours: span }}
              replace
              resetScroll={false}
              className={styles.span ?? ''}
              activeOptions={{ includeSearch: true }}
              data-current={span === String(hours)}
            >
              {title}
            </Link>
          ))}
        </Group>
      }
    >
      {query.error && !query.data ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Body hours={query.data?.hours} />
      )}
      <Text size="sm" c="dimmed" mt="xs">
        Each delivery counts once, by its state now. One that waits for a retry counts as not
        succeeded in the success rate.
      </Text>
    </Panel>
  );
}

function Body({ hours }: { readonly hours: readonly DeliveryHour[] | undefined }) {
  if (hours?.every(({ delivered, failed, waiting }) => delivered + failed + waiting === 0)) {
    return (
      <Center h={CHART_HEIGHT}>
        <Text c="dimmed">Nothing was sent in this time.</Text>
      </Center>
    );
  }
  const wait = (
    <Skeleton height={CHART_HEIGHT} aria-busy="true" role="status" aria-label="Loading the chart" />
  );
  return (
    <Suspense fallback={wait}>
      {hours ? <Chart hours={hours} height={CHART_HEIGHT} /> : wait}
    </Suspense>
  );
}

function Sums({ hours }: { readonly hours: readonly DeliveryHour[] }) {
  const sum = (of: (hour: DeliveryHour) => number) =>
    hours.reduce((all, hour) => all + of(hour), 0);
  const [failed, retrying] = [sum((hour) => hour.failed), sum((hour) => hour.retrying)];
  const isFirst = sum((hour) => hour.waiting) - retrying;
  return (
    <>
      {count(
        sum(({ delivered }) => delivered),
        'delivery',
        'deliveries',
      )}{' '}
      succeeded,{' '}
      <Text span inherit {...(failed > 0 && { c: 'var(--mantine-color-error)', fw: 600 })}>
        {numberText(failed)} failed
      </Text>
      {retrying > 0 && (
        <>
          ,{' '}
          <Text span inherit c="var(--mantine-color-yellow-light-color)" fw={600}>
            {numberText(retrying)} waiting for a retry
          </Text>
        </>
      )}
      , {numberText(isFirst)} not tried yet
    </>
  );
}
