import type { Queryable } from '../../../platform/postgres.ts';

/**
 * A stored time that is further in the future than this is from before the database's clock was set back. Milliseconds.
 */
const AHEAD_MS = 2_000;
/** Maximum number of deliveries that one statement corrects. */
const MAX_ROWS = 2_000;

/** The shards whose rows are corrected, and the offset of the retry clock. */
export interface Affected {
  readonly shards: readonly number[];
  readonly offsetMs: number;
}

/**
 * Corrects retries whose pause started in the future, because the database's clock was set back later. They wait for
 * their whole pause again, from now. So a retry is late by at most its own pause, and never early. Only the rows
 * themselves show that the clock was set back, and a corrected row does not show it any more.
 *
 * Skips rows that another transaction is writing. The next call finds them.
 *
 * @returns whether more rows may need the correction.
 */
export async function restartWaits(db: Queryable, o: Affected): Promise<boolean> {
  const { rows } = await db.query<{ count: number }>({
    name: 'restart-waits',
    text: RESTART_WAITS,
    values: [o.shards, o.offsetMs],
  });
  return rows[0]?.count === MAX_ROWS;
}

// The statement waits for no lock, so the order of its locks does not matter. It finds rows by the index on
// `scheduled_at` and then by ctid, whatever the statistics are. The update uses `clock_timestamp()`: when the process
// was frozen, `now()` is the old start of the transaction, and the retry would be early.
const RESTART_WAITS = `
with ahead as materialized (
  select q.ctid as at, q.shop_id, q.subscription_id from queue q
   where q.scheduled_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
   order by q.scheduled_at limit ${10 * MAX_ROWS}
), locked as materialized (
  select a.* from ahead a
   cross join lateral (
     select from subscription_queues sq
      where sq.shop_id = a.shop_id and sq.subscription_id = a.subscription_id and sq.shard = any($1::smallint[])
        for no key update skip locked) sq
   cross join lateral (
     select from queue q where q.ctid = a.at for no key update skip locked) q
   limit ${MAX_ROWS}
), retry_clock as materialized (
  select clock_timestamp() + $2 * interval '1 ms' as now_at
), waiting as (
  update queue q set next_attempt_at = clock.now_at + (q.next_attempt_at - q.scheduled_at), scheduled_at = clock.now_at
    from locked, retry_clock clock
   where q.ctid = locked.at and q.scheduled_at > clock.now_at + ${AHEAD_MS} * interval '1 ms'
), loaded as (
  update subscription_queues sq set ready_at = clock.now_at
    from (select distinct shop_id, subscription_id from locked) affected, retry_clock clock
   where sq.shop_id = affected.shop_id and sq.subscription_id = affected.subscription_id
     and sq.ready_at > clock.now_at
)
select count(*)::int as count from locked`;

/**
 * Marks as ready the queues with a fresh delivery whose time is in the future. Such a delivery was queued before the
 * database's clock was set back, and is due. Each waiting queue costs one index access.
 */
export async function markFreshReady(db: Queryable, o: Affected): Promise<void> {
  await db.query({ name: 'mark-fresh-ready', text: MARK_FRESH, values: [o.shards, o.offsetMs] });
}

const MARK_FRESH = `
with ahead as materialized (
  select sq.shop_id, sq.subscription_id from subscription_queues sq
   cross join lateral (
     select q.next_attempt_at as at from queue q
      where q.shop_id = sq.shop_id and q.subscription_id = sq.subscription_id and not q.is_retry
      order by q.next_attempt_at desc, q.id desc limit 1) latest
   where sq.shard = any($1::smallint[]) and sq.ready_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
     and latest.at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
   order by sq.shop_id, sq.subscription_id for no key update of sq skip locked
)
update subscription_queues sq set ready_at = now() + $2 * interval '1 ms'
  from ahead a where sq.shop_id = a.shop_id and sq.subscription_id = a.subscription_id`;
