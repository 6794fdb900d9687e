import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Button, Group, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { ReturnSummary } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { dayEnd, dayStart } from '../../api/dates.ts';
import { PAGES } from '../../api/pages.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { More } from '../../parts/more.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { UnreadFilterState } from '../../parts/unread-filter.tsx';
import { filterId, listOf, unreadFilter } from '../../search.ts';
import { count, inWords, moneyText } from '../../words.ts';
import styles from './list.module.css';

const ReturnFilters = lazyPart(async () => (await import('./filters.tsx')).ReturnFilters, 2);

const route = getRouteApi('/returns');

/** The service counts matches up to this number. */
const COUNTED_MAX = 10_000;

export function ReturnsPage() {
  const search = route.useSearch();
  const unread = unreadFilter(search, dayStart);
  return (
    <Needs method={ReturnsService.method.listReturns}>
      <PageHead title="Returns" about="The returns of your shop, newest first." />
      <Meanings of={['In review', 'Outcome']} />
      <ReturnFilters />
      {unread ? <UnreadFilterState of={unread} /> : <Results />}
    </Needs>
  );
}

function Results() {
  const search = route.useSearch();
  const [from, to] = [dayStart(search.from), dayEnd(search.to)];
  const pages = useInfiniteQuery(
    ReturnsService.method.listReturns,
    {
      text: search.q ?? '',
      states: listOf(search.state),
      labelStatuses: listOf(search.label),
      outcomes: listOf(search.outcome),
      flagged: search.mark === 'flagged',
      fraudReported: search.mark === 'fraud',
      destinationId: filterId(search.destination),
      ...(from && { from }),
      ...(to && { to }),
      pageSize: 50,
      cursor: '',
    },
    PAGES,
  );
  return (
    <Loaded query={pages} rows={12}>
      {(data) => {
        const returns = data.pages.flatMap((page) => page.returns);
        if (returns.length === 0) return <NoReturns />;
        return (
          <>
            <Matches total={data.pages[0]?.total ?? 0} />
            <DataTable
              caption="Returns"
              linked
              columns={COLUMNS}
              rows={returns}
              rowKey={({ id }) => id}
            />
            <More pages={pages} shown="These are all returns that match." />
          </>
        );
      }}
    </Loaded>
  );
}

function Matches({ total }: { readonly total: number }) {
  return (
    <Text size="sm" c="dimmed" mb="xs" role="status">
      {total >= COUNTED_MAX && 'At least '}
      {count(total, 'return')}
    </Text>
  );
}

const COLUMNS: readonly Column<ReturnSummary>[] = [
  {
    title: 'Order',
    short: true,
    cell: ({ id, orderName }) => (
      <div className={styles.order}>
        <Link to="/returns/$returnId" params={{ returnId: id }} title={orderName}>
          {orderName}
        </Link>
        <SecondLine>return {id}</SecondLine>
      </div>
    ),
  },
  { title: 'Items', cell: (one) => <Items summary={one} /> },
  {
    title: 'Shopper',
    cell: ({ customerName, customerEmail }) => (
      <div className={styles.shopper}>
        <span title={customerName}>{customerName || customerEmail || '–'}</span>
        {customerName !== '' && (
          <Text size="xs" c="dimmed" truncate title={customerEmail}>
            {customerEmail}
          </Text>
        )}
      </div>
    ),
  },
  {
    title: 'State',
    cell: (one) => <State summary={one} />,
  },
  { title: 'Outcome', cell: ({ outcome }) => inWords(outcome) },
  {
    title: 'Parcel',
    cell: ({ labelStatus }) => (labelStatus === '' ? 'No label' : inWords(labelStatus)),
  },
  {
    title: 'Total',
    align: 'end',
    cell: ({ total }) => (total ? moneyText(total.value, total.currency) : '–'),
  },
  { title: 'Submitted', short: true, cell: ({ createdAt }) => <Time at={createdAt} as="day" /> },
];

/** The state, what is marked, and why somebody must look at it. */
function State({
  summary: { state, processing, fraudReported, flagReasons },
}: {
  readonly summary: ReturnSummary;
}) {
  return (
    <>
      <Group gap={6}>
        <Status state={state} />
        {processing && <Status state="running" />}
        {fraudReported && <Status state="fraud_reported" />}
      </Group>
      {flagReasons.length > 0 && (
        <Text size="xs" c="dimmed" lineClamp={2}>
          {flagReasons.join(', ')}
        </Text>
      )}
    </>
  );
}

function Items({ summary: { titles, units } }: { readonly summary: ReturnSummary }) {
  const [first = '', ...others] = titles;
  return (
    <div className={styles.items}>
      {first}
      {others.length > 0 && ` and ${others.length === 1 ? others[0] : 'others'}`}
      <SecondLine>{count(units, 'unit')}</SecondLine>
    </div>
  );
}

function NoReturns() {
  const navigate = route.useNavigate();
  if (Object.keys(route.useSearch()).length === 0) {
    return (
      <EmptyState title="No returns yet">
        A return appears here as soon as a shopper submits it.
      </EmptyState>
    );
  }
  return (
    <EmptyState
      title="No return matches"
      action={
        <Button variant="default" onClick={() => void navigate({ search: {} })}>
          Clear the filters
        </Button>
      }
    >
      The search finds a whole order name such as #1001 or 1001, return number, SKU, tracking number
      or e-mail address, or a part of an item's title or of the shopper's name (three letters or
      more).
    </EmptyState>
  );
}
