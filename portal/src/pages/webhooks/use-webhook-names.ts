import { useQuery } from '@connectrpc/connect-query';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useSession } from '../../session/session.tsx';
import type { Named } from './name.ts';

/**
 * Finds webhooks by their ids. One that was deleted, or is not loaded yet, has an id only, and so have all for users who
 * may not read webhooks.
 */
export function useWebhookNames(): (id: string) => Named {
  const { listWebhooks } = WebhooksService.method;
  const { data } = useQuery(listWebhooks, {}, { enabled: useSession().can(listWebhooks) });
  return (id) => data?.webhooks.find((one) => one.id === id) ?? { id, description: '', url: '' };
}
