import { useQuery } from '@connectrpc/connect-query';
import { Button } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import {
  type Destination,
  DestinationsService,
  DestinationType,
} from '../../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { FilterBar, SelectFilter, TextFilter, useFilters } from '../../parts/filters.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';

const DestinationForm = lazyPart(
  async () => (await import('./destination-form.tsx')).DestinationForm,
);

const route = getRouteApi('/destinations');
const NEW = 'new';

/** The places to which returns go. The opened form is a part of the address. */
export function DestinationsPage() {
  const { can } = useSession();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { listDestinations, createDestination } = DestinationsService.method;
  const query = useQuery(listDestinations, {});
  const edit = (id: string) => void navigate({ search: { ...search, edit: id } });
  const edited = query.data?.destinations.find(({ id }) => String(id) === search.edit);
  const add = can(createDestination) && (
    <Button onClick={() => edit(NEW)}>Add a destination</Button>
  );
  return (
    <>
      <PageHead
        title="Destinations"
        about="Warehouses and donation centres to which returns are shipped."
        actions={query.data?.destinations.length ? add : undefined}
      />
      <Loaded query={query}>
        {({ destinations }) =>
          destinations.length === 0 ? (
            <EmptyState title="No destinations yet" action={add}>
              Add the warehouse to which shoppers send returns.
            </EmptyState>
          ) : (
            <Places destinations={destinations} edit={edit} />
          )
        }
      </Loaded>
      {(edited || search.edit === NEW) && can(createDestination) && (
        <DestinationForm key={search.edit} of={edited} onClose={() => edit('')} />
      )}
    </>
  );
}

const COLUMNS: readonly Column<Destination>[] = [
  {
    title: 'Name',
    cell: ({ id, name }) => (
      <>
        <FirstLine>{name}</FirstLine>
        <SecondLine>id {String(id)}</SecondLine>
      </>
    ),
  },
  {
    title: 'Kind',
    short: true,
    cell: ({ type }) => (type === DestinationType.DONATE ? 'Donation centre' : 'Warehouse'),
  },
  {
    title: 'State',
    short: true,
    cell: ({ enabled }) => <Status state={enabled ? 'enabled' : 'disabled'} />,
  },
  { title: 'Address', cell: ({ address }) => addressText(address) || '–' },
  {
    title: 'Provider location',
    cell: ({ providerLocationId: id }) => (id === 0n ? 'not linked' : String(id)),
  },
  { title: 'Changed', short: true, cell: ({ updatedAt }) => <Time at={updatedAt} as="day" /> },
];

function editColumn(edit: (id: string) => void): Column<Destination> {
  return {
    title: 'Actions',
    cell: ({ id, name }) => (
      <RowButton text="Edit" label={`Edit ${name}`} onClick={() => edit(String(id))} />
    ),
  };
}

function Places(o: {
  readonly destinations: readonly Destination[];
  readonly edit: (id: string) => void;
}) {
  const mayEdit = useSession().can(DestinationsService.method.updateDestination);
  const search = route.useSearch();
  const { filter } = useFilters();
  const text = comparable(search.q ?? '');
  const shown = o.destinations.filter(
    ({ name, type, enabled, address }) =>
      comparable(`${name} ${addressText(address)}`).includes(text) &&
      (search.show === undefined ||
        search.show === (type === DestinationType.DONATE ? 'donate' : 'warehouse') ||
        search.show === (enabled ? 'on' : 'off')),
  );
  return (
    <>
      <FilterBar>
        <TextFilter label="Search" placeholder="name or address" {...filter('q')} />
        <SelectFilter
          label="Show"
          all="All"
          {...filter('show')}
          options={[
            ['on', 'Enabled'],
            ['off', 'Disabled'],
            ['warehouse', 'Warehouses'],
            ['donate', 'Donation centres'],
          ]}
        />
      </FilterBar>
      {shown.length === 0 ? (
        <EmptyState title="No destination matches">
          Type another part of the name or address, or show all.
        </EmptyState>
      ) : (
        <DataTable
          caption="Destinations"
          rows={shown}
          rowKey={({ id }) => String(id)}
          columns={mayEdit ? [...COLUMNS, editColumn(o.edit)] : COLUMNS}
        />
      )}
    </>
  );
}

/** The same for all spellings of a text in Unicode. */
function comparable(text: string): string {
  return text.normalize('NFKC').toLowerCase();
}

function addressText(address: Destination['address']): string {
  if (!address) return '';
  const { company, address1, address2, zip, city, state, country, countryCode } = address;
  return [company, address1, address2, `${zip} ${city}`.trim(), state, country || countryCode]
    .filter((part) => part !== '')
    .join(', ');
}
