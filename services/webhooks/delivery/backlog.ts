import type pg from 'pg';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { dayOf, rangeOfDay } from '../delivery-id.ts';
import { announce } from './announce.ts';
import type { LaneRef } from './lane.ts';

/** How long a delivery may be held, by the retry clock. */
export const HELD_DAYS = 30;

/** Lanes looked at in one pass. */
const MAX_LANES = 100;

/** Deliveries ended by one statement. */
export const END_BATCH = 1_000;

export interface Ended {
  readonly dropped: number;
  readonly expired: number;
  /** There may be more of the same. */
  readonly isMore: boolean;
}

/**
 * Writes down, a batch at a time, what a change of a subscription has decided already: deliveries of
 * deleted ones are dropped, those held for 30 days expire. None of them is being sent.
 *
 * @param offsetMs of the retry clock.
 */
export async function endBacklog(pool: pg.Pool, offsetMs: number): Promise<Ended> {
  let dropped = 0;
  let expired = 0;
  let isMore = false;
  for (const lane of await lanesToDrain(pool)) {
    const ended = await drain(pool, lane);
    isMore ||= ended === END_BATCH;
    if (lane.isDeleted) dropped += ended;
    else expired += ended;
  }
  for (const lane of await lanesHeldTooLong(pool, offsetMs)) {
    const ended = await endWaiting(pool, lane, { as: 'expired', before: lane.before });
    isMore ||= ended === END_BATCH;
    expired += ended;
  }
  return { dropped, expired, isMore };
}

interface Draining extends LaneRef {
  readonly isDeleted: boolean;
  /** What was queued before it is to expire. */
  readonly before: Date | null;
}

async function lanesToDrain(db: Queryable): Promise<Draining[]> {
  const { rows } = await db.query<Draining>(
    `select shop_id as "shopId", subscription_id as "subscriptionId", is_deleted as "isDeleted",
            expire_before as before
       from lanes where is_deleted or expire_before is not null
      order by shop_id, subscription_id limit ${MAX_LANES}`,
  );
  return rows;
}

/** Ends a batch; when it was the last, the lane is as it is to be. */
async function drain(pool: pg.Pool, lane: Draining): Promise<number> {
  const as = lane.isDeleted ? 'dropped' : 'expired';
  const ended = await endWaiting(pool, lane, { as, before: lane.isDeleted ? null : lane.before });
  if (ended < END_BATCH) await finish(pool, lane);
  return ended;
}

/** What is being written down at this moment was passed over: then its turn comes again. */
function finish(pool: pg.Pool, lane: Draining): Promise<void> {
  const key = [lane.shopId, lane.subscriptionId];
  return inTransaction(pool, async (tx) => {
    if (lane.isDeleted) {
      await tx.query(
        `delete from lanes where shop_id = $1 and subscription_id = $2 and not exists (
           select from queue where shop_id = $1 and subscription_id = $2)`,
        key,
      );
      return;
    }
    await tx.query(
      `update lanes l set expire_before = null, ready_at = case when l.is_open then now() end
        where l.shop_id = $1 and l.subscription_id = $2
          and date_trunc('milliseconds', l.expire_before) = $3 and not exists (
          select from queue where shop_id = $1 and subscription_id = $2 and queued_at < $3)`,
      [...key, lane.before],
    );
    await announce(tx, [lane], { isChange: true });
  });
}

/** Of inactive subscriptions. */
async function lanesHeldTooLong(
  db: Queryable,
  offsetMs: number,
): Promise<(LaneRef & { before: Date })[]> {
  const { rows } = await db.query<LaneRef & { before: Date }>(
    `with late as (
       select now() + $1 * interval '1 ms' - interval '${HELD_DAYS} days' as before
     )
     select s.shop_id as "shopId", s.id as "subscriptionId", late.before
       from late join subscriptions s on s.inactive_since < late.before
      where s.status = 'inactive' and s.deleted_at is null and exists (
        select from queue q
         where q.shop_id = s.shop_id and q.subscription_id = s.id and q.queued_at < late.before)
      order by s.inactive_since limit ${MAX_LANES}`,
    [offsetMs],
  );
  return rows;
}

/** Ends up to {@link END_BATCH} deliveries of a lane, those queued before a time or all. Returns how many. */
function endWaiting(
  pool: pg.Pool,
  lane: LaneRef,
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
      [lane.shopId, lane.subscriptionId, o.before],
    );
    const ids = rows.map((row) => row.id).sort();
    // One day at a time, as for settling.
    for (const [day, ofDay] of Map.groupBy(ids, (id) => dayOf(id).getTime())) {
      const { first, end } = rangeOfDay(new Date(day));
      await tx.query(
        `update deliveries set ended = $3, finished_at = now()
          where shop_id = $1 and id = any($2::uuid[]) and ended is null
            and id >= '${first}' and id < '${end}'`,
        [lane.shopId, ofDay, o.as],
      );
    }
    return ids.length;
  });
}
