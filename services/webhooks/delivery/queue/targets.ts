import type { Queryable } from '../../../platform/postgres/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../../../platform/postgres/sql.ts';
import { isSandboxShop } from '../../subscriptions/sandbox.ts';
import { type Due, encryptedSecretsOf } from './read-due.ts';
import { QUEUE_COLUMNS, type QueueRow, type StoredQueue, toQueue } from './ready-queues.ts';

/**
 * A queue that has no waiting retry. This process may send its fresh deliveries without reading them from the table.
 */
export interface Target extends StoredQueue {
  readonly url: string;
  /** See {@link Due}. */
  readonly encryptedSecrets: string | null;
  /** See {@link Due}. */
  readonly isSandbox: boolean;
  readonly isFailing: boolean;
  /** Whether the queue had no deliveries. */
  readonly wasEmpty: boolean;
  /**
   * When the queue was found, which is before the commit of the fresh deliveries. By the monotonic clock. Milliseconds.
   */
  readonly foundAtMs: number;
}

/** The deliveries of a queue that one transaction has just committed. */
export interface FreshDeliveries {
  readonly target: Target;
  readonly deliveries: readonly Due[];
}

type Row = QueueRow &
  Pick<Target, 'url' | 'encryptedSecrets' | 'isSandbox' | 'isFailing' | 'wasEmpty'>;

/** A shop and a trigger. A queue gets the events of one shop with one trigger. */
interface ShopTrigger {
  readonly shopId: bigint;
  readonly trigger: string;
}

/** Shops and triggers as rows of a statement. */
export const shopTriggerRows = rowsOf<ShopTrigger>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  trigger: ['text', ({ trigger }) => trigger],
});

/**
 * Finds the queues whose new deliveries may be sent at once: open queues of the shards without a waiting retry. The
 * caller must have locked them until its commit.
 */
export async function findTargets(
  tx: Queryable,
  pairs: readonly ShopTrigger[],
  shards: readonly number[],
): Promise<Target[]> {
  if (pairs.length === 0 || shards.length === 0) return [];
  const { rows } = await tx.query<Row>(named('find-targets', findStatement(pairs, shards)));
  const foundAtMs = performance.now();
  return rows.map((row) => {
    const { url, encryptedSecrets, isSandbox, isFailing, wasEmpty } = row;
    return { ...toQueue(row), url, encryptedSecrets, isSandbox, isFailing, wasEmpty, foundAtMs };
  });
}

const findStatement = (pairs: readonly ShopTrigger[], shards: readonly number[]): Sql => sql`
select ${QUEUE_COLUMNS}, e.url, s.failures > 0 as "isFailing", sq.ready_at is null as "wasEmpty",
       ${encryptedSecretsOf('sq')} as "encryptedSecrets", ${isSandboxShop('sq')} as "isSandbox"
  from ${shopTriggerRows('input', pairs)}
  join subscription_queues sq on sq.shop_id = input.shop_id and sq.trigger = input.trigger
   and sq.is_open and sq.expire_before is null and sq.shard = any(${shards}::smallint[])
  join subscriptions s on s.shop_id = sq.shop_id and s.id = sq.subscription_id
  join endpoints e on e.shop_id = sq.shop_id and e.id = sq.endpoint_id
 where not exists (
   select from queue q where q.shop_id = sq.shop_id and q.subscription_id = sq.subscription_id and q.is_retry)`;
