import { useQuery } from '@connectrpc/connect-query';
import type { Delivery } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { resultText } from '../deliveries/result.ts';
import { useLastTest } from './sent-tests.ts';

/** How often the result is read until there is one. Milliseconds. */
const REFRESH_MS = 1_000;

/** What became of the last test of a webhook in a version: `accepted (HTTP 200) on …`. */
export function TestResult(o: { readonly webhook: Webhook; readonly version: string }) {
  const { shop } = useSession();
  const deliveryId = useLastTest({
    shopId: shop.id,
    webhookId: o.webhook.id,
    version: o.version,
  });
  const { data, error } = useQuery(
    WebhooksService.method.getDelivery,
    { deliveryId: deliveryId ?? '' },
    {
      enabled: deliveryId !== undefined,
      refetchInterval: ({ state }) =>
        isTried(state.data?.delivery) || state.error ? false : REFRESH_MS,
    },
  );
  // The log keeps a delivery for 30 days.
  if (deliveryId === undefined || error) return <>not tested from this browser</>;
  const delivery = data?.delivery;
  const attempt = delivery?.lastAttempt;
  if (!delivery || !attempt) return <>sending…</>;
  return (
    <>
      {delivery.state === 'delivered' ? 'accepted' : 'not accepted'} ({resultText(attempt)}) on{' '}
      <Time at={attempt.startedAt} />
    </>
  );
}

function isTried(delivery: Delivery | undefined): boolean {
  return delivery?.lastAttempt !== undefined;
}
