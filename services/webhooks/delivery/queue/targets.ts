import type { Queryable } from '../../../platform/postgres.ts';
import { type Due, encryptedSecretsOf } from './read-due.ts';
import { QUEUE_COLUMNS, type QueueRow, type StoredQueue, toQueue } from './ready-queues.ts';

/** A queue without a waiting retry. Its fresh deliveries may be sent without reading them from the table. */
export interface Target extends StoredQueue {
  readonly url: string;
  /** See {@link Due}. */
  readonly encryptedSecrets: string | null;
  readonly isFailing: boolean;
  /** Whether the queue was empty. */
  readonly wasEmpty: boolean;
  /** When it was found, before the commit of the fresh deliveries; by the monotonic clock. */
  readonly foundAtMs: number;
}

/** Deliveries of a queue that were just committed. */
export interface FreshDeliveries {
  readonly target: Target;
  readonly deliveries: readonly Due[];
}

type Row = QueueRow & Pick<Target, 'url' | 'encryptedSecrets' | 'isFailing' | 'wasEmpty'>;

/**
 * The queues to which deliveries of these triggers may be sent at once: the open queues of the shards without a waiting
 * retry. The caller has locked them until its commit.
 */
export async function findTargets(
  tx: Queryable,
  pairs: readonly { readonly shopId: bigint; readonly trigger: string }[],
  shards: readonly number[],
): Promise<Target[]> {
  if (pairs.length === 0 || shards.length === 0) return [];
  const { rows } = await tx.query<Row>({
    name: 'find-targets',
    text: FIND,
    values: [pairs.map(({ shopId }) => shopId), pairs.map(({ trigger }) => trigger), shards],
  });
  const foundAtMs = performance.now();
  return rows.map((row) => {
    const { url, encryptedSecrets, isFailing, wasEmpty } = row;
    return { ...toQueue(row), url, encryptedSecrets, isFailing, wasEmpty, foundAtMs };
  });
}

const FIND = `
select ${QUEUE_COLUMNS}, e.url, s.failures > 0 as "isFailing", l.ready_at is null as "wasEmpty",
       ${encryptedSecretsOf('l.shop_id', 'l.subscription_id')} as "encryptedSecrets"
  from unnest($1::bigint[], $2::text[]) as g (shop_id, trigger)
  join subscription_queues l on l.shop_id = g.shop_id and l.trigger = g.trigger
   and l.is_open and l.expire_before is null and l.shard = any($3::smallint[])
  join subscriptions s on s.shop_id = l.shop_id and s.id = l.subscription_id
  join endpoints e on e.shop_id = l.shop_id and e.id = l.endpoint_id
 where not exists (
   select from queue q where q.shop_id = l.shop_id and q.subscription_id = l.subscription_id and q.is_retry)`;
