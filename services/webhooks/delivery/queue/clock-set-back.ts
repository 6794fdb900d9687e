import type { Queryable } from '../../../platform/postgres.ts';

/** A stored time that is further in the future dates from before the database's clock was set back. Milliseconds. */
export const AHEAD_MS = 2_000;
const MOST_AT_ONCE = 2_000;

/** The shards to correct, and the offset of the retry clock. */
export interface Affected {
  readonly shards: readonly number[];
  readonly offsetMs: number;
}

/**
 * Corrects retries whose wait started in the future, because the database's clock was set back since. They wait for
 * their whole pause again, from now. So a retry is late by at most its own pause, and never early. The rows themselves
 * show the step, so no memory of it is needed, and corrected rows are not found again.
 *
 * Skips rows that another transaction is writing; the next call finds them.
 *
 * @returns whether there may be more.
 */
export async function restartWaits(db: Queryable, o: Affected): Promise<boolean> {
  const { rows } = await db.query<{ count: number }>({
    name: 'restart-waits',
    text: RESTART_WAITS,
    values: [o.shards, o.offsetMs],
  });
  return rows[0]?.count === MOST_AT_ONCE;
}

// All locks are taken without waiting, so their order does not matter. Rows are found by the index on `scheduled_at`,
// then by ctid, whatever the statistics are. The update reads `clock_timestamp()` again: after the process was frozen,
// `now()` is the old start of the transaction, and the retry would be early.
const RESTART_WAITS = `
with ahead as materialized (
  select q.ctid as at, q.shop_id, q.subscription_id from queue q
   where q.scheduled_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
   order by q.scheduled_at limit ${10 * MOST_AT_ONCE}
), mine as materialized (
  select a.* from ahead a
   cross join lateral (
     select from subscription_queues l
      where l.shop_id = a.shop_id and l.subscription_id = a.subscription_id and l.shard = any($1::smallint[])
        for no key update skip locked) l
   cross join lateral (
     select from queue q where q.ctid = a.at for no key update skip locked) q
   limit ${MOST_AT_ONCE}
), given as materialized (
  select clock_timestamp() + $2 * interval '1 ms' as now_at
), waiting as (
  update queue q set next_attempt_at = g.now_at + (q.next_attempt_at - q.scheduled_at), scheduled_at = g.now_at
    from mine m, given g
   where q.ctid = m.at and q.scheduled_at > g.now_at + ${AHEAD_MS} * interval '1 ms'
), loaded as (
  update subscription_queues l set ready_at = g.now_at
    from (select distinct shop_id, subscription_id from mine) m, given g
   where l.shop_id = m.shop_id and l.subscription_id = m.subscription_id and l.ready_at > g.now_at
)
select count(*)::int as count from mine`;

/**
 * Marks queues ready that hold a fresh delivery with a time in the future. Such a delivery was queued before the
 * database's clock was set back, and is due. Costs one index step for each waiting queue.
 */
export async function markFreshReady(db: Queryable, o: Affected): Promise<void> {
  await db.query({ name: 'mark-fresh-ready', text: MARK_FRESH, values: [o.shards, o.offsetMs] });
}

const MARK_FRESH = `
with ahead as materialized (
  select l.shop_id, l.subscription_id from subscription_queues l
   cross join lateral (
     select q.next_attempt_at as at from queue q
      where q.shop_id = l.shop_id and q.subscription_id = l.subscription_id and not q.is_retry
      order by q.next_attempt_at desc, q.id desc limit 1) latest
   where l.shard = any($1::smallint[]) and l.ready_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
     and latest.at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
   order by l.shop_id, l.subscription_id for no key update of l skip locked
)
update subscription_queues l set ready_at = now() + $2 * interval '1 ms'
  from ahead a where l.shop_id = a.shop_id and l.subscription_id = a.subscription_id`;
