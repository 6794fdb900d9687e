import { useQuery } from '@connectrpc/connect-query';
import { getRouteApi } from '@tanstack/react-router';
import { PayloadsService } from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import {
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { DateFilter, FilterBar, SelectFilter, TextFilter } from '../../parts/filters.tsx';
import { ALL_WEBHOOKS } from '../webhooks/use-webhooks.ts';
import { hostOf } from '../webhooks/webhook.ts';
import { GIVEN_UP_FILTER, NOT_RECEIVED } from './delivery.ts';

const route = getRouteApi('/deliveries');

/** The kinds of a state stand below it. */
const STATES = [
  [NOT_RECEIVED, 'Not received (all kinds)'],
  ['waiting', '– Waiting'],
  ['held', '– Held'],
  [GIVEN_UP_FILTER, '– Given up (both kinds)'],
  ['exhausted', '– – All attempts failed'],
  ['expired', '– – Expired'],
  ['delivered', 'Delivered'],
  ['dropped', 'Dropped with its webhook'],
] as const;

/** The filters of the log. Each is a part of the address. */
export function DeliveryFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: webhooks } = useQuery(WebhooksService.method.listSubscriptions, ALL_WEBHOOKS);
  const { data: types } = useQuery(
    PayloadsService.method.listEventTypes,
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
        options={(webhooks?.subscriptions ?? []).map((one) => [String(one.id), optionText(one)])}
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

function optionText({ id, description, trigger, url }: Subscription): string {
  if (description === '') return `${id}: ${trigger} to ${shortUrl(url)}`;
  return `${id}: ${description} (${hostOf(url)}), ${trigger}`;
}

function shortUrl(url: string): string {
  return url.length > 48 ? `${url.slice(0, 47)}…` : url;
}
