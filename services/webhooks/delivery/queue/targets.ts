import type { Queryable } from '../../../platform/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../../../platform/sql.ts';
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

/** What a queue gets. */
interface Wanted {
  readonly shopId: bigint;
  readonly trigger: string;
}

/** Shops and triggers as rows of a statement. */
export const wantedRows = rowsOf<Wanted>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  trigger: ['text', ({ trigger }) => trigger],
});

/**
 * The queues to which deliveries of these triggers may be sent at once: the open queues of the shards without a waiting
 * retry. The caller has locked them until its commit.
 */
export async function findTargets(
  tx: Queryable,
  pairs: readonly Wanted[],
  shards: readonly number[],
): Promise<Target[]> {
  if (pairs.length === 0 || shards.length === 0) return [];
  const { rows } = await tx.query<Row>(named('find-targets', findStatement(pairs, shards)));
  const foundAtMs = performance.now();
  return rows.map((row) => {
    const { url, encryptedSecrets, isFailing, wasEmpty } = row;
    return { ...toQueue(row), url, encryptedSecrets, isFailing, wasEmpty, foundAtMs };
  });
}

const findStatement = (pairs: readonly Wanted[], shards: readonly number[]): Sql => sql`
select ${QUEUE_COLUMNS}, e.url, s.failures > 0 as "isFailing", l.ready_at is null as "wasEmpty",
       ${encryptedSecretsOf('l')} as "encryptedSecrets"
  from ${wantedRows('g', pairs)}
  join subscription_queues l on l.shop_id = g.shop_id and l.trigger = g.trigger
   and l.is_open and l.expire_before is null and l.shard = any(${shards}::smallint[])
  join subscriptions s on s.shop_id = l.shop_id and s.id = l.subscription_id
  join endpoints e on e.shop_id = l.shop_id and e.id = l.endpoint_id
 where not exists (
   select from queue q where q.shop_id = l.shop_id and q.subscription_id = l.subscription_id and q.is_retry)`;
