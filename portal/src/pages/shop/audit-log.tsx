import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { AuditService } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { dayEnd, dayStart } from '../../api/dates.ts';
import { PAGES } from '../../api/pages.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { More } from '../../parts/more.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { UnreadFilterState } from '../../parts/unread-filter.tsx';
import { filterId, unreadFilter } from '../../search.ts';
import { AUDIT_COLUMNS, shownEntries } from './audit-entry.tsx';
import { ExportMenu } from './audit-export.tsx';

const AuditFilters = lazyPart(async () => (await import('./audit-filters.tsx')).AuditFilters, 2);
const NoEntries = lazyPart(async () => (await import('./audit-filters.tsx')).NoEntries);

const route = getRouteApi('/audit-log');

export function AuditLogPage() {
  const { listAuditEntries } = AuditService.method;
  const search = route.useSearch();
  const [from, to] = [dayStart(search.from), dayEnd(search.to)];
  const filter = {
    text: search.q ?? '',
    actorId: search.actor ?? '',
    action: search.action ?? '',
    returnId: filterId(search.return),
    ...(from && { from }),
    ...(to && { to }),
  };
  const unread = unreadFilter(search, dayStart);
  return (
    <Needs method={listAuditEntries}>
      <PageHead
        title="Audit log"
        about="Who changed what, by the portal, the API, an assistant or the operator. Entries are kept for 13 months, and nobody can change them."
        actions={!unread && <ExportMenu filter={filter} />}
      />
      <AuditFilters />
      {unread ? <UnreadFilterState of={unread} /> : <Results filter={filter} />}
    </Needs>
  );
}

function Results({ filter }: { readonly filter: { readonly text: string } }) {
  const pages = useInfiniteQuery(
    AuditService.method.listAuditEntries,
    { filter, pageSize: 100, cursor: '' },
    PAGES,
  );
  return (
    <Loaded query={pages} rows={12}>
      {(data) => {
        const entries = shownEntries(data.pages.flatMap((page) => page.entries));
        if (entries.length === 0 && !pages.hasNextPage) {
          return <NoEntries />;
        }
        return (
          <Stack gap={0}>
            {entries.length > 0 && (
              <DataTable
                caption="Audit log"
                columns={AUDIT_COLUMNS}
                rows={entries}
                rowKey={({ id }) => id}
              />
            )}
            {filter.text !== '' && pages.hasNextPage && (
              <Text size="sm" c="dimmed" mt="md" ta="center" role="status">
                Searched back to <Time at={data.pages.at(-1)?.readTo} />.
              </Text>
            )}
            <More pages={pages} shown="These are all entries that match." />
          </Stack>
        );
      }}
    </Loaded>
  );
}
