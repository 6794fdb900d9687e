import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useSession } from '../../session/session.tsx';
import { GIVEN_UP } from '../deliveries/states.ts';

/** The deliveries that a webhook has not received. */
export interface Missed {
  readonly total: number;
  /** Waiting or held. */
  readonly waiting: number;
  /** All attempts failed, or they were held for too long. */
  readonly givenUp: number;
  /** Whether there are more than were counted. */
  readonly isMore: boolean;
  /** When the oldest of them happened. */
  readonly since: Timestamp | undefined;
}

/** Counts what a webhook has not received. Without the right to read the log, only what waits is known. */
export function useMissed({ id: webhookId, health }: Webhook): Missed {
  const { listDeliveries } = WebhooksService.method;
  const mayList = useSession().can(listDeliveries);
  const { data } = useQuery(
    listDeliveries,
    { webhookId, states: GIVEN_UP, pageSize: 1 },
    { enabled: mayList, refetchInterval: 15_000 },
  );
  const { waiting = 0, moreWaiting = false, oldestWaitingAt } = health ?? {};
  const { count: givenUp = 0, more = false, oldestAt } = data?.count ?? {};
  return {
    total: waiting + givenUp,
    waiting,
    givenUp,
    isMore: moreWaiting || (more && givenUp > 0),
    since: earlier(oldestWaitingAt, oldestAt),
  };
}

function earlier(one: Timestamp | undefined, other: Timestamp | undefined): Timestamp | undefined {
  if (!one || !other) return one ?? other;
  return one.seconds <= other.seconds ? one : other;
}
