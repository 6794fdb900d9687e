import { useInfiniteQuery } from '@connectrpc/connect-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  type Replay,
  ReplayStateSchema,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { pagesEvery } from '../../api/pages.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { More } from '../../parts/more.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { bigFilterId } from '../../search.ts';
import { numberText, wordOf } from '../../words.ts';
import { WebhooksNav } from '../webhooks/nav.tsx';
import { kindText, useWhatText } from './what.ts';

const route = getRouteApi('/replays');

export function ReplaysPage() {
  const { webhook } = route.useSearch();
  const { listReplays } = WebhooksService.method;
  const pages = useInfiniteQuery(
    listReplays,
    { subscriptionId: bigFilterId(webhook), pageSize: 50, cursor: '' },
    pagesEvery(5_000),
  );
  return (
    <>
      <PageHead
        title="Replays and backfills"
        about="Jobs that send deliveries again, or stored events for the first time."
      />
      <WebhooksNav />
      <Meanings of={['Replay', 'Backfill', 'Payload']} />
      <Loaded query={pages}>
        {(data) => {
          const replays = data.pages.flatMap((page) => page.replays);
          return replays.length === 0 ? (
            <EmptyState title="No jobs yet">
              Choose deliveries in the <Link to="/deliveries">log</Link> and press “Send these
              again”, or open a webhook and start a backfill.
            </EmptyState>
          ) : (
            <>
              <Jobs replays={replays} />
              <More pages={pages} shown="These are all jobs." />
            </>
          );
        }}
      </Loaded>
    </>
  );
}

function Jobs({ replays }: { readonly replays: readonly Replay[] }) {
  const whatText = useWhatText();
  return (
    <DataTable
      caption="Replays and backfills"
      linked
      rows={replays}
      rowKey={({ id }) => String(id)}
      columns={[
        {
          title: 'Job',
          cell: (job) => (
            <>
              <Link to="/replays/$replayId" params={{ replayId: String(job.id) }}>
                {kindText(job)} {String(job.id)}
              </Link>
              <SecondLine>{whatText(job)}</SecondLine>
            </>
          ),
        },
        {
          title: 'State',
          cell: ({ state }) => <Status state={wordOf(ReplayStateSchema, state)} />,
        },
        {
          title: 'Sent',
          align: 'end',
          cell: ({ done, total }) => `${numberText(done)} of ${numberText(total)}`,
        },
        { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} /> },
      ]}
    />
  );
}
