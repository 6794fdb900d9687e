import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Button, Code, Stack, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { type AuditEntry, AuditService } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import type { Person } from '../../../../proto/gen/rms/portal/v1/common_pb.ts';
import { dayEnd, dayStart } from '../../api/dates.ts';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { DateFilter, FilterBar, TextFilter } from '../../parts/filters.tsx';
import { More } from '../../parts/more.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { inWords } from '../../words.ts';
import { ExportButton } from './audit-export.tsx';

const route = getRouteApi('/audit-log');

export function AuditLogPage() {
  const { listAuditEntries } = AuditService.method;
  const search = route.useSearch();
  const [from, to] = [dayStart(search.from), dayEnd(search.to)];
  const filter = {
    actorId: search.actor ?? '',
    action: search.action ?? '',
    ...(from && { from }),
    ...(to && { to }),
  };
  const pages = useInfiniteQuery(
    listAuditEntries,
    { filter, pageSize: 50, cursor: '' },
    { pageParamKey: 'cursor', getNextPageParam: ({ nextCursor }) => nextCursor || undefined },
  );
  return (
    <Needs method={listAuditEntries}>
      <PageHead
        title="Audit log"
        about="Who changed what, by the portal, the API, an assistant or the operator. Entries are kept for 13 months, and nobody can change them."
        actions={<ExportButton filter={filter} />}
      />
      <Filters />
      <Loaded query={pages} rows={12}>
        {(data) => {
          const entries = data.pages.flatMap((page) => page.entries);
          return entries.length === 0 ? (
            <EmptyState title="No entry matches">
              Choose a longer time or another action.
            </EmptyState>
          ) : (
            <Stack gap={0}>
              <DataTable
                caption="Audit log"
                columns={COLUMNS}
                rows={entries}
                rowKey={({ id }) => id}
              />
              <More pages={pages} shown="These are all entries that match." />
            </Stack>
          );
        }}
      </Loaded>
    </Needs>
  );
}

function Filters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const set = (name: keyof typeof search) => (value: string) =>
    void navigate({ search: { ...search, [name]: value }, replace: true });
  return (
    <FilterBar>
      <TextFilter
        label="Action"
        placeholder="portal.* or api_key.created"
        width={260}
        value={search.action}
        onChange={set('action')}
      />
      <TextFilter
        label="Who"
        placeholder="id of a user, key or app"
        width={220}
        value={search.actor}
        onChange={set('actor')}
      />
      <DateFilter label="From" value={search.from} onChange={set('from')} />
      <DateFilter label="Until" value={search.to} onChange={set('to')} />
      {Object.keys(search).length > 0 && (
        <Button variant="subtle" onClick={() => void navigate({ search: {} })}>
          Clear
        </Button>
      )}
    </FilterBar>
  );
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { title: 'When', short: true, cell: ({ at }) => <Time at={at} as="exact" /> },
  {
    title: 'Who',
    cell: ({ by }) => (
      <>
        {by ? <Who of={by} /> : '–'}
        <Text size="xs" c="dimmed">
          {inWords(by?.kind ?? '')} {by?.name !== '' && by?.id}
        </Text>
      </>
    ),
  },
  { title: 'Action', short: true, cell: ({ action }) => <Code>{action}</Code> },
  { title: 'On', cell: ({ subject }) => subject || '–' },
  {
    title: 'Details',
    cell: (entry) => (
      <>
        <Details detail={entry.detail} />
        <Text size="xs" c="dimmed">
          {[entry.source, entry.requestId].filter((text) => text !== '').join(' · ')}
        </Text>
      </>
    ),
  },
];

/** A name that filters the log. */
function Who({ of: { id, name } }: { readonly of: Person }) {
  if (id === '') return <>{name || '–'}</>;
  return (
    <route.Link
      to="."
      search={(search) => ({ ...search, actor: id })}
      replace
      title="Show only what was done by them"
    >
      {name || id}
    </route.Link>
  );
}

/** Ids that connect entries. The export has them; in the list they hide what matters. */
const IDS: ReadonlySet<string> = new Set(['call', 'session']);

/** The details of an entry as pairs. */
function Details({ detail }: { readonly detail: string }) {
  const pairs = pairsOf(detail).filter(([name]) => !IDS.has(name));
  if (pairs.length === 0) return null;
  return (
    <Text size="xs">{pairs.map(([name, value]) => `${inWords(name)}: ${value}`).join(' · ')}</Text>
  );
}

function pairsOf(detail: string): [string, string][] {
  try {
    const parsed: unknown = JSON.parse(detail === '' ? '{}' : detail);
    if (typeof parsed !== 'object' || parsed === null) return [];
    return Object.entries(parsed).map(([name, value]: [string, unknown]) => [name, textOf(value)]);
  } catch {
    return [['detail', detail]];
  }
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return Array.isArray(value) ? value.map(textOf).join(', ') : JSON.stringify(value);
}
