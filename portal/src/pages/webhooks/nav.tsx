import { WebhooksService } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SubNav } from '../../parts/sub-nav.tsx';
import { useSession } from '../../session/session.tsx';

/** The pages about webhooks. */
export function WebhooksNav() {
  const { can } = useSession();
  const { listDeliveries, listReplays } = WebhooksService.method;
  return (
    <SubNav
      label="Webhooks"
      links={[
        ['/webhooks', 'Endpoints'],
        ...(can(listDeliveries) ? [['/deliveries', 'Deliveries'] as const] : []),
        ...(can(listReplays) ? [['/replays', 'Replays'] as const] : []),
      ]}
    />
  );
}
