import { useQuery } from '@connectrpc/connect-query';
import { Button } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { DateFilter, FilterBar, SelectFilter, TextFilter } from '../../parts/filters.tsx';

const route = getRouteApi('/deliveries');

const STATES = [
  ['exhausted', 'All attempts failed'],
  ['waiting', 'Waiting'],
  ['held', 'Held'],
  ['delivered', 'Delivered'],
  ['expired', 'Expired'],
  ['dropped', 'Dropped'],
  ['exhausted,expired', 'Not delivered'],
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
  const set = (name: keyof typeof search) => (value: string) =>
    void navigate({ search: { ...search, [name]: value }, replace: true });
  const isFiltered = Object.keys(search).length > 0;
  return (
    <FilterBar>
      <TextFilter
        label="Search by id"
        placeholder="webhook-id or event id"
        width={290}
        value={search.q}
        onChange={set('q')}
      />
      <SelectFilter
        label="State"
        all="All states"
        value={search.state}
        onChange={set('state')}
        options={STATES}
      />
      <SelectFilter
        label="Webhook"
        all="All webhooks"
        value={search.webhook}
        onChange={set('webhook')}
        options={(webhooks?.webhooks ?? []).map(({ id, url }) => [id, `${id}: ${shortUrl(url)}`])}
      />
      <SelectFilter
        label="Event"
        all="All events"
        value={search.trigger}
        onChange={set('trigger')}
        options={(types?.triggers ?? []).map(({ name }) => [name, name])}
      />
      <TextFilter
        label="Return"
        placeholder="id"
        width={100}
        value={search.return}
        onChange={set('return')}
      />
      <DateFilter type="datetime-local" label="From" value={search.from} onChange={set('from')} />
      <DateFilter type="datetime-local" label="Until" value={search.to} onChange={set('to')} />
      {isFiltered && (
        <Button variant="subtle" onClick={() => void navigate({ search: {} })}>
          Clear
        </Button>
      )}
    </FilterBar>
  );
}

function shortUrl(url: string): string {
  return url.length > 48 ? `${url.slice(0, 47)}…` : url;
}
