import { useQuery } from '@connectrpc/connect-query';
import { getRouteApi } from '@tanstack/react-router';
import { DestinationsService } from '../../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DateFilter, FilterBar, SelectFilter, TextFilter } from '../../parts/filters.tsx';
import { MARKS } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { inWords } from '../../words.ts';

const route = getRouteApi('/returns');

const STATES = [
  ['open', 'Open'],
  ['review', 'In review'],
  ['open,review', 'Open or in review'],
  ['closed', 'Closed'],
  ['cancelled', 'Cancelled'],
  ['expired', 'Expired'],
] as const;

const LABELS = [
  'none',
  'new',
  'pre_transit',
  'in_transit',
  'out_for_delivery',
  'delivered',
  'error',
  'failure',
].map((status) => [status, status === 'none' ? 'No label' : inWords(status)] as const);

const OUTCOMES = [
  'refund',
  'credit',
  'exchange',
  'upsell',
  'exchange+refund',
  'exchange+credit',
].map((outcome) => [outcome, inWords(outcome)] as const);

/** The filters of the search. Each is a part of the address. */
export function ReturnFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const isFiltered = Object.keys(search).length > 0;
  const filter = (name: keyof typeof search) => ({
    value: search[name],
    onChange: (value: string) =>
      void navigate({ search: { ...search, [name]: value }, replace: true }),
  });
  const { listDestinations } = DestinationsService.method;
  const mayList = useSession().can(listDestinations);
  const { data } = useQuery(listDestinations, {}, { enabled: mayList });
  return (
    <FilterBar onClear={isFiltered && (() => void navigate({ search: {} }))}>
      <TextFilter
        label="Search"
        placeholder="Order, return, SKU, name, e-mail, item"
        width={300}
        {...filter('q')}
      />
      <SelectFilter label="State" all="All states" options={STATES} {...filter('state')} />
      <SelectFilter label="Marked" all="All" options={MARKS} {...filter('mark')} />
      <SelectFilter label="Parcel" all="All" options={LABELS} {...filter('label')} />
      <SelectFilter label="Outcome" all="All outcomes" options={OUTCOMES} {...filter('outcome')} />
      {mayList && (
        <SelectFilter
          label="Destination"
          all="All destinations"
          options={(data?.destinations ?? []).map(({ id, name }) => [String(id), name])}
          {...filter('destination')}
        />
      )}
      <DateFilter label="From" {...filter('from')} />
      <DateFilter label="Until" {...filter('to')} />
    </FilterBar>
  );
}
