import type pg from 'pg';
import { inTransaction, type Queryable } from '../../../platform/postgres/postgres.ts';
import { dayOf, rangeOfDay } from '../../delivery-id.ts';
import { notifyDue } from './notify.ts';
import type { QueueRef } from './queue-ref.ts';

/**
 * Maximum time that a delivery is held, in days by the retry clock. Deliveries of an inactive subscription are held:
 * they wait in the queue, and are sent when a user activates the subscription again. After this time they expire.
 */
export const HELD_DAYS = 30;

/** Maximum number of queues that one call handles. */
const MAX_QUEUES_PER_CALL = 100;

/** Maximum number of deliveries that one statement ends. */
const END_BATCH = 1_000;

export interface Ended {
  readonly dropped: number;
  readonly expired: number;
  /** Whether more deliveries may have to end. */
  readonly isMore: boolean;
}

/**
 * Ends deliveries that will not be sent, one batch for each queue. Deliveries of deleted subscriptions are dropped.
 * Deliveries that were held for 30 days expire. None of these deliveries is in flight.
 *
 * @param offsetMs offset of the retry clock.
 */
export async function endBacklog(pool: pg.Pool, offsetMs: number): Promise<Ended> {
  let dropped = 0;
  let expired = 0;
  let hasFullBatch = false;
  const toEnd = await queuesToEnd(pool);
  for (const queue of toEnd) {
    const ended = await endBatch(pool, queue);
    hasFullBatch ||= ended === END_BATCH;
    if (queue.isDeleted) dropped += ended;
    else expired += ended;
  }
  const heldTooLong = await queuesHeldTooLong(pool, offsetMs);
  for (const queue of heldTooLong) {
    const ended = await endWaiting(pool, queue, { as: 'expired', before: queue.before });
    hasFullBatch ||= ended === END_BATCH;
    expired += ended;
  }
  const found = Math.max(toEnd.length, heldTooLong.length);
  return { dropped, expired, isMore: hasFullBatch || found === MAX_QUEUES_PER_CALL };
}

interface QueueToEnd extends QueueRef {
  readonly isDeleted: boolean;
  /** Only deliveries that were queued before this time expire; null for all. */
  readonly before: Date | null;
}

async function queuesToEnd(db: Queryable): Promise<QueueToEnd[]> {
  const { rows } = await db.query<QueueToEnd>(
    `select shop_id as "shopId", subscription_id as "subscriptionId", is_deleted as "isDeleted",
            expire_before as before
       from subscription_queues where is_deleted or expire_before is not null
      order by shop_id, subscription_id limit ${MAX_QUEUES_PER_CALL}`,
  );
  return rows;
}

/** Ends a batch of deliveries. After the last batch, sets the final state of the queue. */
async function endBatch(pool: pg.Pool, queue: QueueToEnd): Promise<number> {
  const as = queue.isDeleted ? 'dropped' : 'expired';
  const ended = await endWaiting(pool, queue, {
    as,
    before: queue.isDeleted ? null : queue.before,
  });
  if (ended < END_BATCH) await finish(pool, queue);
  return ended;
}

/**
 * Sets the final state of a queue. Has no effect while a statement that records results keeps some of its rows locked.
 */
function finish(pool: pg.Pool, queue: QueueToEnd): Promise<void> {
  const key = [queue.shopId, queue.subscriptionId];
  return inTransaction(pool, async (tx) => {
    if (queue.isDeleted) {
      await tx.query(
        `delete from subscription_queues where shop_id = $1 and subscription_id = $2 and not exists (
           select from queue where shop_id = $1 and subscription_id = $2)`,
        key,
      );
      return;
    }
    await tx.query(
      `update subscription_queues sq set expire_before = null, ready_at = case when sq.is_open then now() end
        where sq.shop_id = $1 and sq.subscription_id = $2
          and date_trunc('milliseconds', sq.expire_before) = $3 and not exists (
          select from queue where shop_id = $1 and subscription_id = $2 and queued_at < $3)`,
      [...key, queue.before],
    );
    await notifyDue(tx, [queue], { isChange: true });
  });
}

/** Finds queues of inactive subscriptions that have deliveries which were held for too long. */
async function queuesHeldTooLong(
  db: Queryable,
  offsetMs: number,
): Promise<(QueueRef & { before: Date })[]> {
  const { rows } = await db.query<QueueRef & { before: Date }>(
    `with late as (
       select now() + $1 * interval '1 ms' - interval '${HELD_DAYS} days' as before
     )
     select s.shop_id as "shopId", s.id as "subscriptionId", late.before
       from late join subscriptions s on s.inactive_since < late.before
      where s.status = 'inactive' and s.deleted_at is null and exists (
        select from queue q
         where q.shop_id = s.shop_id and q.subscription_id = s.id and q.queued_at < late.before)
      order by s.inactive_since limit ${MAX_QUEUES_PER_CALL}`,
    [offsetMs],
  );
  return rows;
}

/**
 * Ends up to {@link END_BATCH} deliveries of a queue. Returns their number.
 *
 * @param o.before ends only deliveries that were queued before this time; null for all.
 */
function endWaiting(
  pool: pg.Pool,
  queue: QueueRef,
  o: { as: 'dropped' | 'expired'; before: Date | null },
): Promise<number> {
  return inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ id: string }>(
      `with late as (
         select shop_id, subscription_id, id from queue
          where shop_id = $1 and subscription_id = $2 and ($3::timestamptz is null or queued_at < $3)
          limit ${END_BATCH} for update skip locked
       )
       delete from queue q using late
        where q.shop_id = late.shop_id and q.subscription_id = late.subscription_id and q.id = late.id
       returning q.id`,
      [queue.shopId, queue.subscriptionId, o.before],
    );
    const ids = rows.map((row) => row.id).sort();
    // One statement for each day, so that PostgreSQL plans only one partition. See `recordStatement`.
    for (const [day, ofDay] of Map.groupBy(ids, (id) => dayOf(id).getTime())) {
      const { first, end } = rangeOfDay(new Date(day));
      await tx.query(
        `update deliveries set ended = $3, finished_at = now()
          where shop_id = $1 and id = any($2::uuid[]) and ended is null
            and id >= '${first}' and id < '${end}'`,
        [queue.shopId, ofDay, o.as],
      );
    }
    return ids.length;
  });
}
