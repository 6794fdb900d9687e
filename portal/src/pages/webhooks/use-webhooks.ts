import { useQuery } from '@connectrpc/connect-query';
import {
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useSession } from '../../session/session.tsx';
import type { Named } from './webhook.ts';

/** The request of the list of webhooks. All parts of the page make the same, so that it is read once for all. */
export const ALL_WEBHOOKS = { includeBacklog: true, includeHealth: true } as const;

/**
 * Finds webhooks by their ids. One that was deleted, or is not loaded yet, has an id only, and so have all for users who
 * may not read webhooks.
 */
export function useWebhookNames(): (id: bigint) => Named {
  const { listSubscriptions } = WebhooksService.method;
  const enabled = useSession().can(listSubscriptions);
  const { data } = useQuery(listSubscriptions, ALL_WEBHOOKS, { enabled });
  return (id) =>
    data?.subscriptions.find((one) => one.id === id) ?? { id, description: '', url: '' };
}

/** The other webhooks that send to the address of this one. */
export function useSameAddress({ id, url }: Pick<Subscription, 'id' | 'url'>): Subscription[] {
  const { data } = useQuery(WebhooksService.method.listSubscriptions, ALL_WEBHOOKS);
  return (data?.subscriptions ?? []).filter((one) => one.id !== id && one.url === url);
}
