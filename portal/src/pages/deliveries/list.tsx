import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query';
import { Button, Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { DeliveryCount } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { localMoment } from '../../api/dates.ts';
import { pagesEvery } from '../../api/pages.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { More } from '../../parts/more.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { UnreadFilterState } from '../../parts/unread-filter.tsx';
import { filterId, idOr0, listOf, unreadFilter } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { Unlisted } from '../replays/unlisted.tsx';
import { WebhooksNav } from '../webhooks/nav.tsx';
import { NOT_RECEIVED } from './states.ts';
import { DeliveryTable } from './table.tsx';

const DeliveryFilters = lazyPart(async () => (await import('./filters.tsx')).DeliveryFilters, 2);

const ReplayDialog = lazyPart(
  async () => (await import('../replays/replay-dialog.tsx')).ReplayDialog,
);

const route = getRouteApi('/deliveries');

/** The log of all webhooks. */
export function DeliveriesPage() {
  const { listDeliveries, startReplay } = WebhooksService.method;
  const { can } = useSession();
  const search = route.useSearch();
  const [replaying, { open, close }] = useDisclosure(false);
  const filter = filterOf(search);
  const unread = unreadFilter(search, localMoment);
  return (
    <Needs method={listDeliveries}>
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
          filter={{ ...filter, replayId: filterId(search.replay), search: search.q ?? '' }}
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
    </Needs>
  );
}

type Search = ReturnType<typeof route.useSearch>;

/** The filter of an address, for the log and for a replay. */
function filterOf(search: Search) {
  return {
    webhookId: filterId(search.webhook),
    states: listOf(search.state),
    trigger: search.trigger ?? '',
    topic: search.topic ?? '',
    returnId: filterId(search.return),
    ...timesOf(search),
  };
}

type LogFilter = ReturnType<typeof filterOf> & { replayId: string | undefined; search: string };

/** @param o.actions what can be done with all that match; not shown when none does. */
function Log({ filter, actions }: { readonly filter: LogFilter; readonly actions: ReactNode }) {
  const pages = useInfiniteQuery(
    WebhooksService.method.listDeliveries,
    { ...filter, pageSize: 50, cursor: '' },
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
  const replayId = idOr0(search.replay);
  const { getReplay } = WebhooksService.method;
  const { can } = useSession();
  const { data } = useQuery(
    getReplay,
    { replayId },
    { enabled: replayId !== '0' && can(getReplay) },
  );
  if (data?.replay?.unlisted) {
    return (
      <EmptyState title="The deliveries of this job are not listed">
        <Unlisted replay={data.replay} />
      </EmptyState>
    );
  }
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
