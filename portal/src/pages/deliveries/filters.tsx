import { useQuery } from '@connectrpc/connect-query';
import { getRouteApi } from '@tanstack/react-router';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { DateFilter, FilterBar, SelectFilter, TextFilter } from '../../parts/filters.tsx';

import { GIVEN_UP, NOT_RECEIVED } from './states.ts';

const route = getRouteApi('/deliveries');

const STATES = [
  ['exhausted', 'All attempts failed'],
  ['waiting', 'Waiting'],
  ['held', 'Held'],
  ['delivered', 'Delivered'],
  ['expired', 'Expired'],
  ['dropped', 'Dropped'],
  [GIVEN_UP.join(','), 'Given up'],
  [NOT_RECEIVED, 'Not received'],
] as const;

/** The filters of the log. Each is a part of the address. */
export function DeliveryFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: webhooks } = useQuery(WebhooksService.method.listWebhooks, {});
  const { data: types } = useQuery(
    WebhooksService.method.listEventTypes,
    {},
    { staleTime: Infinity },
  );
  const isFiltered = Object.keys(search).length > 0;
  const filter = (name: keyof typeof search) => ({
    value: search[name],
    onChange: (value: string) =>
      void navigate({ search: { ...search, [name]: value }, replace: true }),
  });
  return (
    <FilterBar onClear={isFiltered && (() => void navigate({ search: {} }))}>
      <TextFilter
        label="Search by id"
        placeholder="webhook-id or event id"
        width={290}
        {...filter('q')}
      />
      <SelectFilter label="State" all="All states" {...filter('state')} options={STATES} />
      <SelectFilter
        label="Webhook"
        all="All webhooks"
        {...filter('webhook')}
        options={(webhooks?.webhooks ?? []).map(({ id, url }) => [id, `${id}: ${shortUrl(url)}`])}
      />
      <SelectFilter
        label="Event"
        all="All events"
        {...filter('trigger')}
        options={(types?.triggers ?? []).map(({ name }) => [name, name])}
      />
      <TextFilter label="Return" placeholder="id" width={100} {...filter('return')} />
      <TextFilter label="Replay" placeholder="id" width={100} {...filter('replay')} />
      <DateFilter type="datetime-local" label="From" {...filter('from')} />
      <DateFilter type="datetime-local" label="Until" {...filter('to')} />
    </FilterBar>
  );
}

function shortUrl(url: string): string {
  return url.length > 48 ? `${url.slice(0, 47)}…` : url;
}
