import { onlyRow } from '../../../platform/postgres/only-row.ts';
import type { Queryable } from '../../../platform/postgres/postgres.ts';
import { named, param, rowsOf, sql } from '../../../platform/postgres/sql.ts';
import type { EndpointHealth } from '../endpoint/circuit-breaker.ts';
import { endpointKeyOf, type QueueRef, queueKeyOf, queueRows } from './queue-ref.ts';

/** A queue as it is stored, with the health of its endpoint. */
export interface StoredQueue extends QueueRef {
  readonly key: string;
  readonly endpointId: bigint;
  readonly endpointKey: string;
  readonly shard: number;
  readonly health: EndpointHealth;
}

/** The columns of a queue `sq` and of its endpoint `e`, see {@link QUEUE_COLUMNS}. */
export interface QueueRow extends QueueRef {
  endpointId: bigint;
  shard: number;
  maxInFlight: number;
  failures: number;
  failingSinceMs: number | null;
  failed: string[];
  openedAtMs: number | null;
  pausedUntilMs: number | null;
}

/** A queue and its endpoint. */
type EndpointQueue = QueueRef & { readonly endpointId: bigint };

const endpointQueueRows = rowsOf<EndpointQueue>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
  endpoint_id: ['bigint', ({ endpointId }) => endpointId],
});

export interface FindOptions {
  readonly shards: readonly number[];
  readonly limit: number;
  readonly offsetMs: number;
}

/**
 * Finds the ready queues of the shards. The queue that has been ready for the longest time is first.
 *
 * @param o.except queues that are left out, unless they have moved to another endpoint.
 */
export async function findReadyQueues(
  db: Queryable,
  o: FindOptions & { except: readonly EndpointQueue[] },
): Promise<StoredQueue[]> {
  const limit = param(o.limit);
  const { rows } = await db.query<QueueRow>(
    named(
      'find-ready-queues',
      sql`
select ${QUEUE_COLUMNS}
  from unnest(${o.shards}::smallint[]) as s (shard)
 cross join lateral (
   select * from subscription_queues r
    where r.shard = s.shard and r.ready_at <= now() + ${o.offsetMs} * interval '1 ms'
      and (r.shop_id, r.subscription_id, r.endpoint_id) not in (select * from ${endpointQueueRows('loaded', o.except)})
    order by r.ready_at limit ${limit}) sq
  join endpoints e on e.shop_id = sq.shop_id and e.id = sq.endpoint_id
 order by sq.ready_at limit ${limit}`,
    ),
  );
  return rows.map(toQueue);
}

/** Returns those queues that are ready and in the shards. */
export async function findQueues(
  db: Queryable,
  queues: readonly QueueRef[],
  o: FindOptions,
): Promise<StoredQueue[]> {
  const { rows } = await db.query<QueueRow>(
    named(
      'find-queues',
      sql`
select ${QUEUE_COLUMNS}
  from ${queueRows('g', queues)}
  join subscription_queues sq on sq.shop_id = g.shop_id and sq.subscription_id = g.subscription_id
  join endpoints e on e.shop_id = sq.shop_id and e.id = sq.endpoint_id
 where sq.shard = any(${o.shards}::smallint[]) and sq.ready_at <= now() + ${o.offsetMs} * interval '1 ms'
 limit ${o.limit}`,
    ),
  );
  return rows.map(toQueue);
}

/**
 * Returns the database's time, and the next time at which a queue of the shards becomes ready. Both by the retry clock,
 * in milliseconds.
 */
export async function findNextReady(
  db: Queryable,
  o: { shards: readonly number[]; offsetMs: number },
): Promise<{ nowMs: number; nextMs: number | null }> {
  const offset = param(o.offsetMs);
  const { rows } = await db.query<{ nowMs: number; nextMs: number | null }>(
    named(
      'find-next-ready',
      sql`
select extract(epoch from now())::float8 * 1000 + ${offset} as "nowMs", (
         select extract(epoch from min(n.ready_at))::float8 * 1000
           from unnest(${o.shards}::smallint[]) as s (shard)
          cross join lateral (
            select sq.ready_at from subscription_queues sq
             where sq.shard = s.shard and sq.ready_at > now() + ${offset} * interval '1 ms'
             order by sq.ready_at limit 1) n) as "nextMs"`,
    ),
  );
  return rows[0] ?? { nowMs: Date.now() + o.offsetMs, nextMs: null };
}

export interface Unloading extends QueueRef {
  readonly endpointId: bigint;
  /** Time of the next probe of an open circuit, by the retry clock, in milliseconds; null for a closed circuit. */
  readonly pausedUntilMs: number | null;
}

/**
 * Stores when each queue becomes ready next, and returns these times; null for never. Skips queues that now belong to
 * another endpoint, that are closed or have deliveries to expire, or that another transaction has locked. They are not in
 * the result.
 */
export async function unloadQueues(
  db: Queryable,
  queues: readonly Unloading[],
): Promise<Map<string, number | null>> {
  const pausedUntilMs = queues.map((queue) => queue.pausedUntilMs);
  const { rows } = await db.query<QueueRef & { readyMs: number | null }>(
    named(
      'unload-queues',
      sql`select shop as "shopId", subscription as "subscriptionId",
                 extract(epoch from ready)::float8 * 1000 as "readyMs"
            from unload_queues(
              ${queues.map((queue) => queue.shopId)}, ${queues.map((queue) => queue.subscriptionId)},
              ${queues.map((queue) => queue.endpointId)},
              array(select to_timestamp(u.ms / 1000)
                      from unnest(${pausedUntilMs}::float8[]) with ordinality as u (ms, n) order by u.n))`,
    ),
  );
  return new Map(rows.map((row) => [queueKeyOf(row), row.readyMs]));
}

/** Converts a row to a queue with the health of its endpoint. */
export function toQueue(row: QueueRow): StoredQueue {
  const { shopId, subscriptionId, endpointId, shard } = row;
  const { maxInFlight, failures, failingSinceMs, failed, openedAtMs, pausedUntilMs } = row;
  const circuit =
    openedAtMs === null || pausedUntilMs === null ? null : { openedAtMs, pausedUntilMs };
  return {
    key: queueKeyOf(row),
    shopId,
    subscriptionId,
    endpointId,
    endpointKey: endpointKeyOf(row),
    shard,
    health: { maxInFlight, failures, failingSinceMs, failed, circuit },
  };
}

export const QUEUE_COLUMNS = sql`sq.shop_id as "shopId", sq.subscription_id as "subscriptionId", sq.endpoint_id as "endpointId", sq.shard,
       e.flight_cap as "maxInFlight", e.consecutive_failures as failures,
       extract(epoch from e.failing_since)::float8 * 1000 as "failingSinceMs",
       e.failed_deliveries::text[] as failed,
       extract(epoch from e.circuit_opened_at)::float8 * 1000 as "openedAtMs",
       extract(epoch from e.held_until)::float8 * 1000 as "pausedUntilMs"`;

/**
 * Stores a new time for unloaded queues with due work: after all ready queues, or after a pause. Skips queues that
 * another transaction is writing.
 *
 * @param pauseMs pause from now; 0 puts the queues after all ready ones.
 */
export async function rescheduleQueues(
  db: Queryable,
  queues: readonly QueueRef[],
  { offsetMs, pauseMs = 0 }: { offsetMs: number; pauseMs?: number },
): Promise<void> {
  const offset = param(offsetMs);
  await db.query(
    named(
      'reschedule-queues',
      sql`with late as (
            select sq.shop_id, sq.subscription_id from subscription_queues sq
              join ${queueRows('g', queues)}
                on g.shop_id = sq.shop_id and g.subscription_id = sq.subscription_id
             where sq.ready_at <= now() + ${offset} * interval '1 ms'
             order by sq.shop_id, sq.subscription_id for no key update of sq skip locked
          )
          update subscription_queues sq set ready_at = now() + (${offset} + ${pauseMs}::float8) * interval '1 ms'
            from late where sq.shop_id = late.shop_id and sq.subscription_id = late.subscription_id`,
    ),
  );
}

/**
 * Marks as ready the queues of an endpoint that wait for the next probe. Must be called when the circuit has closed.
 * Returns whether queues were skipped, because another transaction is writing them.
 */
export async function markQueuesDue(
  db: Queryable,
  endpoint: { shopId: bigint; endpointId: bigint },
  offsetMs: number,
): Promise<boolean> {
  const result = await db.query<{ isMore: boolean }>(
    `with waiting as (
       select shop_id, subscription_id from subscription_queues
        where shop_id = $1 and endpoint_id = $2 and ready_at > now() + $3 * interval '1 ms'
        order by shop_id, subscription_id for no key update skip locked
     ), marked as (
       update subscription_queues sq set ready_at = now() + $3 * interval '1 ms'
         from waiting where sq.shop_id = waiting.shop_id and sq.subscription_id = waiting.subscription_id
          and sq.ready_at is not null
       returning 1
     )
     select count(*) > (select count(*) from marked) as "isMore" from subscription_queues
      where shop_id = $1 and endpoint_id = $2 and ready_at > now() + $3 * interval '1 ms'`,
    [endpoint.shopId, endpoint.endpointId, offsetMs],
  );
  return onlyRow(result).isMore;
}
