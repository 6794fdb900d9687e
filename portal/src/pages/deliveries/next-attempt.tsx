import { useQuery } from '@connectrpc/connect-query';
import type { Delivery } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import {
  type WebhookHealth,
  WebhooksService,
} from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { isDue, Time } from '../../parts/time.tsx';

/** As often as the log. Milliseconds. */
const REFRESH_MS = 20_000;

/**
 * The health of the webhooks of deliveries, by their ids. It is read only while one of the deliveries waits: only then it
 * matters whether the webhook is paused.
 */
export function useHealthOf(deliveries: readonly Delivery[]): ReadonlyMap<string, WebhookHealth> {
  const { data } = useQuery(
    WebhooksService.method.listWebhooks,
    {},
    {
      enabled: deliveries.some(({ state }) => state === 'waiting'),
      refetchInterval: REFRESH_MS,
    },
  );
  const webhooks = data?.webhooks ?? [];
  return new Map(webhooks.flatMap(({ id, health }) => (health ? [[id, health] as const] : [])));
}

/**
 * When a delivery is tried next. While its webhook is paused, its own time does not count: single deliveries of the
 * webhook are tried, and the others follow when one succeeds.
 */
export function NextAttempt(o: {
  readonly delivery: Delivery;
  readonly health: WebhookHealth | undefined;
}) {
  const { state, nextAttemptAt } = o.delivery;
  if (state === 'held') return <>when the webhook is active again</>;
  if (!nextAttemptAt) return <>–</>;
  if (!o.health?.pausedSince) {
    return isDue(nextAttemptAt) ? <>due</> : <Time at={nextAttemptAt} as="relative" />;
  }
  const at = o.health.nextAttemptAt ?? nextAttemptAt;
  return (
    <>
      paused: the address fails
      <SecondLine>
        one delivery is tried {isDue(at) ? 'now' : <Time at={at} as="relative" />}
      </SecondLine>
    </>
  );
}
