import { useQuery } from '@connectrpc/connect-query';
import { Link } from '@tanstack/react-router';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { DeliveryTable } from '../deliveries/table.tsx';

const SHOWN = 8;

/** The newest deliveries of one webhook. */
export function RecentDeliveries({ webhookId }: { readonly webhookId: string }) {
  const query = useQuery(
    WebhooksService.method.listDeliveries,
    { webhookId, pageSize: SHOWN },
    { refetchInterval: 10_000 },
  );
  return (
    <Panel
      title="Newest deliveries"
      actions={
        <Link to="/deliveries" search={{ webhook: webhookId }}>
          All deliveries
        </Link>
      }
    >
      <Loaded query={query} rows={SHOWN}>
        {({ deliveries }) => <DeliveryTable deliveries={deliveries} />}
      </Loaded>
    </Panel>
  );
}
