import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Button, Group, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  LabelStatusSchema,
  OutcomeSchema,
  ReturnStateSchema,
} from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type ReturnSummary,
  ReturnsService,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { dayEnd, dayStart } from '../../api/dates.ts';
import { PAGES } from '../../api/pages.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { More } from '../../parts/more.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { UnreadFilterState } from '../../parts/unread-filter.tsx';
import { filterId, listOf, unreadFilter } from '../../search.ts';
import { count, enumOf, inWords, moneyText, wordOf } from '../../words.ts';
import styles from './list.module.css';

const ReturnFilters = lazyPart(async () => (await import('./filters.tsx')).ReturnFilters, 2);

const route = getRouteApi('/returns');

/** The word of the filter for returns without a label. */
const NO_LABEL = 'none';

/** The service counts matches up to this number. */
const COUNTED_MAX = 10_000;

export function ReturnsPage() {
  const search = route.useSearch();
  const unread = unreadFilter(search, dayStart);
  return (
    <>
      <PageHead title="Returns" about="The returns of your shop, newest first." />
      <Meanings of={['In review', 'Outcome']} />
      <ReturnFilters />
      {unread ? <UnreadFilterState of={unread} /> : <Results />}
    </>
  );
}

function Results() {
  const search = route.useSearch();
  const [createdFrom, createdTo] = [dayStart(search.from), dayEnd(search.to)];
  const labels = listOf(search.label);
  const pages = useInfiniteQuery(
    ReturnsService.method.searchReturns,
    {
      query: search.q ?? '',
      states: listOf(search.state).map((word) => enumOf(ReturnStateSchema, word)),
      labelStatuses: labels
        .filter((word) => word !== NO_LABEL)
        .map((word) => enumOf(LabelStatusSchema, word)),
      withoutLabel: labels.includes(NO_LABEL),
      outcomes: listOf(search.outcome).map((word) => enumOf(OutcomeSchema, word.replace('+', '_'))),
      flaggedOnly: search.mark === 'flagged',
      fraudReportedOnly: search.mark === 'fraud',
      destinationId: BigInt(filterId(search.destination) ?? 0),
      ...(createdFrom && { createdFrom }),
      ...(createdTo && { createdTo }),
      pageSize: 50,
      cursor: '',
    },
    PAGES,
  );
  return (
    <Loaded query={pages} rows={12}>
      {(data) => {
        const returns = data.pages.flatMap(({ summaries }) => summaries);
        if (returns.length === 0) return <NoReturns />;
        return (
          <>
            <Matches total={data.pages[0]?.total ?? 0} />
            <DataTable
              caption="Returns"
              linked
              columns={COLUMNS}
              rows={returns}
              rowKey={({ id }) => String(id)}
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
    cell: ({ id, order }) => (
      <div className={styles.order}>
        <Link to="/returns/$returnId" params={{ returnId: String(id) }} title={order?.name}>
          {order?.name}
        </Link>
        <SecondLine>return {String(id)}</SecondLine>
      </div>
    ),
  },
  { title: 'Items', cell: (one) => <Items summary={one} /> },
  { title: 'Shopper', cell: (one) => <Shopper summary={one} /> },
  {
    title: 'State',
    cell: (one) => <State summary={one} />,
  },
  {
    title: 'Outcome',
    cell: ({ outcome }) => inWords(wordOf(OutcomeSchema, outcome).replace('_', '+')),
  },
  {
    title: 'Parcel',
    cell: ({ labelStatus }) => inWords(wordOf(LabelStatusSchema, labelStatus)) || 'No label',
  },
  {
    title: 'Total',
    align: 'end',
    cell: ({ totals, currency }) => moneyText(totals?.total ?? '', currency),
  },
  { title: 'Submitted', short: true, cell: ({ createdAt }) => <Time at={createdAt} as="day" /> },
];

/** The state, what is marked, and why somebody must look at it. */
function State({ summary: { state, processing, details } }: { readonly summary: ReturnSummary }) {
  return (
    <>
      <Group gap={6}>
        <Status state={wordOf(ReturnStateSchema, state)} />
        {processing && <Status state="running" />}
        {details?.fraudReported && <Status state="fraud_reported" />}
      </Group>
      {details && details.flagReasons.length > 0 && (
        <Text size="xs" c="dimmed" lineClamp={2}>
          {details.flagReasons.join(', ')}
        </Text>
      )}
    </>
  );
}

function Shopper({ summary: { details } }: { readonly summary: ReturnSummary }) {
  const { customerFirstName, customerLastName, customerEmail: email } = details ?? {};
  const name = [customerFirstName, customerLastName].filter(Boolean).join(' ');
  return (
    <div className={styles.shopper}>
      <span title={name}>{name || email || '–'}</span>
      {name !== '' && (
        <Text size="xs" c="dimmed" truncate title={email}>
          {email}
        </Text>
      )}
    </div>
  );
}

function Items({ summary: { details } }: { readonly summary: ReturnSummary }) {
  const [first = '', ...others] = details?.titles ?? [];
  return (
    <div className={styles.items}>
      {first}
      {others.length > 0 && ` and ${others.length === 1 ? others[0] : 'others'}`}
      <SecondLine>{count(details?.units ?? 0, 'unit')}</SecondLine>
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
