import type { Queryable } from '../../../platform/postgres.ts';

/** A time that lies further than this in the future was noted before the database's clock was set back. Milliseconds. */
export const AHEAD_MS = 2_000;
const MOST_AT_ONCE = 2_000;

/** Queues of these shards; the offset is that of the retry clock. */
export interface Affected {
  readonly shards: readonly number[];
  readonly offsetMs: number;
}

/**
 * Corrects retries that wait since a time which lies in the future: the database's clock was set back. They
 * wait as long as they had to, from now. So a retry comes later by at most its own wait, and never early. Needs
 * no memory of the step: the rows are the proof, and corrected rows are no proof any more.
 *
 * Skips rows that another transaction writes to; the next call finds them again.
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

// All locks are taken without waiting, so that no order of locks matters. `clock_timestamp()` again in the
// update: `now()` is old where the process stood still since the transaction began, and a retry must not
// come early for that. For `any(array[…])` see `writeResults`.
const RESTART_WAITS = `
with ahead as materialized (
  select q.shop_id, q.subscription_id, q.id
    from queue q join subscription_queues l on l.shop_id = q.shop_id and l.subscription_id = q.subscription_id
   where q.scheduled_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms' and l.shard = any($1::smallint[])
   order by q.scheduled_at limit ${MOST_AT_ONCE} for no key update of q, l skip locked
), given as materialized (
  select clock_timestamp() + $2 * interval '1 ms' as now_at
), waiting as (
  update queue q set next_attempt_at = g.now_at + (q.next_attempt_at - q.scheduled_at), scheduled_at = g.now_at
    from ahead a, given g
   where q.shop_id = any(array[a.shop_id]) and q.subscription_id = a.subscription_id and q.id = a.id
     and q.scheduled_at > g.now_at + ${AHEAD_MS} * interval '1 ms'
), loaded as (
  update subscription_queues l set ready_at = g.now_at
    from (select distinct shop_id, subscription_id from ahead) a, given g
   where l.shop_id = a.shop_id and l.subscription_id = a.subscription_id and l.ready_at > g.now_at
)
select count(*)::int as count from ahead`;

/**
 * Makes queues ready that hold a fresh delivery whose time lies in the future: it was queued before the
 * database's clock was set back, and is due. Costs an index step for each queue that waits.
 */
export async function markFreshReady(db: Queryable, o: Affected): Promise<void> {
  await db.query({ name: 'mark-fresh-ready', text: MARK_FRESH, values: [o.shards, o.offsetMs] });
}

const MARK_FRESH = `
with ahead as materialized (
  select l.shop_id, l.subscription_id from subscription_queues l
   where l.shard = any($1::smallint[]) and l.ready_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
     and exists (
       select from queue q
        where q.shop_id = l.shop_id and q.subscription_id = l.subscription_id and not q.is_retry
          and q.next_attempt_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms')
   order by l.shop_id, l.subscription_id for no key update of l skip locked
)
update subscription_queues l set ready_at = now() + $2 * interval '1 ms'
  from ahead a where l.shop_id = a.shop_id and l.subscription_id = a.subscription_id`;
