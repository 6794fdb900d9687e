import { useQuery } from '@connectrpc/connect-query';
import { Link } from '@tanstack/react-router';
import { Fragment } from 'react';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { count } from '../../words.ts';
import { webhookText } from './name.ts';

/** The other webhooks that send to the address of this one. */
export function useSameAddress({ id, url }: Pick<Webhook, 'id' | 'url'>): readonly Webhook[] {
  const { data } = useQuery(WebhooksService.method.listWebhooks, {});
  return (data?.webhooks ?? []).filter((one) => one.id !== id && one.url === url);
}

/** Says that other webhooks fail for the same reason, with links to them. */
export function AlsoFailing({ webhook }: { readonly webhook: Webhook }) {
  const failing = useSameAddress(webhook).filter(({ health }) => health?.state === 'failing');
  if (failing.length === 0) return null;
  return (
    <div>
      {count(
        failing.length,
        'other webhook uses this address and fails as well',
        'other webhooks use this address and fail as well',
      )}
      : <WebhookLinks webhooks={failing} />.
    </div>
  );
}

function WebhookLinks({ webhooks }: { readonly webhooks: readonly Webhook[] }) {
  return webhooks.map((one, index) => (
    <Fragment key={one.id}>
      {index > 0 && ', '}
      <Link to="/webhooks/$webhookId" params={{ webhookId: one.id }}>
        {webhookText(one, { event: one.trigger })}
      </Link>
    </Fragment>
  ));
}
