import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { AuditService } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { dayEnd, dayStart } from '../../api/dates.ts';
import { PAGES } from '../../api/pages.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { DateFilter, FilterBar, TextFilter } from '../../parts/filters.tsx';
import { More } from '../../parts/more.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { AUDIT_COLUMNS, shownEntries } from './audit-entry.tsx';
import { ExportMenu } from './audit-export.tsx';

const route = getRouteApi('/audit-log');

export function AuditLogPage() {
  const { listAuditEntries } = AuditService.method;
  const search = route.useSearch();
  const [from, to] = [dayStart(search.from), dayEnd(search.to)];
  const filter = {
    text: search.q ?? '',
    actorId: search.actor ?? '',
    action: search.action ?? '',
    ...(from && { from }),
    ...(to && { to }),
  };
  return (
    <Needs method={listAuditEntries}>
      <PageHead
        title="Audit log"
        about="Who changed what, by the portal, the API, an assistant or the operator. Entries are kept for 13 months, and nobody can change them."
        actions={<ExportMenu filter={filter} />}
      />
      <Filters />
      <Results filter={filter} />
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
          return (
            <EmptyState title="No entry matches">
              Choose a longer time or another text. A person is found by name or e-mail address, a
              return or webhook by its number.
            </EmptyState>
          );
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

function Filters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const isFiltered = Object.keys(search).length > 0;
  const filter = (name: keyof typeof search) => ({
    value: search[name],
    onChange: (value: string) =>
      void navigate({ search: { ...search, [name]: value }, replace: true }),
  });
  const { actor, action } = search;
  return (
    <FilterBar onClear={isFiltered && (() => void navigate({ search: {} }))}>
      <TextFilter
        label="Search"
        placeholder="name, e-mail, action, number or value"
        width={320}
        {...filter('q')}
      />
      <DateFilter label="From" {...filter('from')} />
      <DateFilter label="Until" {...filter('to')} />
      {(actor ?? action) !== undefined && (
        <Text size="sm" c="dimmed" pb={8}>
          Only entries with {[actor, action].filter((text) => text !== undefined).join(' and ')}
        </Text>
      )}
    </FilterBar>
  );
}
