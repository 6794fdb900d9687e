import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Button, Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import {
  type DeliveryCount,
  DeliveryStateSchema,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { localMoment } from '../../api/dates.ts';
import { pagesEvery } from '../../api/pages.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { More } from '../../parts/more.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { UnreadFilterState } from '../../parts/unread-filter.tsx';
import { bigFilterId, listOf, unreadFilter } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { count, enumOf } from '../../words.ts';
import { WebhooksNav } from '../webhooks/nav.tsx';
import { NOT_RECEIVED } from './delivery.ts';
import { DeliveryTable } from './table.tsx';

const DeliveryFilters = lazyPart(async () => (await import('./filters.tsx')).DeliveryFilters, 2);

const ReplayDialog = lazyPart(async () => (await import('../replays/start.tsx')).ReplayDialog);

const route = getRouteApi('/deliveries');

/** The log of all webhooks. */
export function DeliveriesPage() {
  const { startReplay } = WebhooksService.method;
  const { can } = useSession();
  const search = route.useSearch();
  const [replaying, { open, close }] = useDisclosure(false);
  const filter = filterOf(search);
  const unread = unreadFilter(search, localMoment);
  return (
    <>
      <PageHead
        title="Deliveries"
        about="Every event for every webhook, and what its receiver answered, for 30 days."
      />
      <WebhooksNav />
      <Meanings
        of={['Event', 'Waiting', 'Held', 'All attempts failed', 'Expired', 'Dropped', 'Given up']}
      />
      <DeliveryFilters />
      {unread ? (
        <UnreadFilterState of={unread} />
      ) : (
        <Log
          filter={{
            ...filter,
            replayId: bigFilterId(search.replay),
            eventId: (search.q ?? '').trim(),
          }}
          actions={
            can(startReplay) &&
            search.q === undefined &&
            search.replay === undefined && (
              <Button size="xs" variant="default" onClick={open}>
                Send these again
              </Button>
            )
          }
        />
      )}
      {replaying && !unread && <ReplayDialog filter={filter} onClose={close} />}
    </>
  );
}

type Search = ReturnType<typeof route.useSearch>;

/** The filter of an address, for the log and for a replay. */
function filterOf(search: Search) {
  return {
    subscriptionId: bigFilterId(search.webhook),
    states: listOf(search.state).map((state) => enumOf(DeliveryStateSchema, state)),
    trigger: search.trigger ?? '',
    topic: search.topic ?? '',
    returnId: bigFilterId(search.return),
    ...timesOf(search),
  };
}

type LogFilter = ReturnType<typeof filterOf> & { replayId: bigint; eventId: string };

/** @param o.actions what can be done with all that match; not shown when none does. */
function Log({ filter, actions }: { readonly filter: LogFilter; readonly actions: ReactNode }) {
  const pages = useInfiniteQuery(
    WebhooksService.method.listDeliveries,
    { ...filter, pageSize: 50, cursor: '', includeCount: true },
    pagesEvery(20_000),
  );
  return (
    <Loaded query={pages} rows={12}>
      {({ pages: loaded }) => {
        const deliveries = loaded.flatMap((page) => page.deliveries);
        // A page of a rare state may be empty, and not the last.
        if (deliveries.length === 0 && !pages.hasNextPage) return <NoDeliveries />;
        return (
          <Stack gap={0}>
            <Group justify="space-between" mb="xs">
              <HowMany counted={loaded[0]?.count} />
              {deliveries.length > 0 && actions}
            </Group>
            {deliveries.length > 0 ? (
              <DeliveryTable deliveries={deliveries} ofAll />
            ) : (
              <Text c="dimmed" ta="center" role="status">
                No delivery matches so far. The log is searched in parts, newest first.
              </Text>
            )}
            <More pages={pages} shown="These are all deliveries that match." />
          </Stack>
        );
      }}
    </Loaded>
  );
}

/** How many deliveries match on all pages. A search, which finds few, is not counted. */
function HowMany({ counted }: { readonly counted: DeliveryCount | undefined }) {
  if (!counted || counted.count === 0) return null;
  const text = count(counted.count, 'delivery', 'deliveries');
  return (
    <Text size="sm" c="dimmed" role="status">
      {counted.more ? `At least ${text}, of the newest that were counted` : text}
    </Text>
  );
}

function NoDeliveries() {
  const search = route.useSearch();
  if (Object.keys(search).length === 0) {
    return (
      <EmptyState title="Nothing was sent in the last 30 days">
        Open one of your <Link to="/webhooks">webhooks</Link> and send a test event.
      </EmptyState>
    );
  }
  if (search.state === NOT_RECEIVED) {
    return (
      <EmptyState title="Nothing is missing">
        Every delivery that the other filters choose was received.
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No delivery matches">
      Choose a longer time or other filters. The search finds a whole webhook-id or
      X-Service-Event-Id of a request.
    </EmptyState>
  );
}

function timesOf({ from, to }: { readonly from?: string; readonly to?: string }) {
  const [start, end] = [localMoment(from), localMoment(to)];
  return { ...(start && { from: start }), ...(end && { to: end }) };
}
