import type { Queryable } from '../../../platform/postgres.ts';
import { named, param, rowsOf, sql } from '../../../platform/sql.ts';
import type { EndpointHealth } from '../endpoint/circuit-breaker.ts';
import { endpointKeyOf, type QueueRef, queueKeyOf, queueRows } from './queue-ref.ts';

/** A stored queue with the health of its endpoint. */
export interface StoredQueue extends QueueRef {
  readonly key: string;
  readonly endpointId: bigint;
  readonly endpointKey: string;
  readonly shard: number;
  readonly health: EndpointHealth;
}

/** The columns of a queue `l` and its endpoint `e`, see {@link QUEUE_COLUMNS}. */
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

/** A queue of an endpoint. */
type Placed = QueueRef & { readonly endpointId: bigint };

const placedRows = rowsOf<Placed>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
  endpoint_id: ['bigint', ({ endpointId }) => endpointId],
});

export interface Finding {
  readonly shards: readonly number[];
  readonly limit: number;
  readonly offsetMs: number;
}

/**
 * The ready queues of the shards, except the given ones, longest ready first. Includes a given queue that has moved to
 * another endpoint.
 */
export async function findReadyQueues(
  db: Queryable,
  o: Finding & { except: readonly Placed[] },
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
      and (r.shop_id, r.subscription_id, r.endpoint_id) not in (select * from ${placedRows('g', o.except)})
    order by r.ready_at limit ${limit}) l
  join endpoints e on e.shop_id = l.shop_id and e.id = l.endpoint_id
 order by l.ready_at limit ${limit}`,
    ),
  );
  return rows.map(toQueue);
}

/** The given queues that are ready and in the shards. */
export async function findQueues(
  db: Queryable,
  queues: readonly QueueRef[],
  o: Finding,
): Promise<StoredQueue[]> {
  const { rows } = await db.query<QueueRow>(
    named(
      'find-queues',
      sql`
select ${QUEUE_COLUMNS}
  from ${queueRows('g', queues)}
  join subscription_queues l on l.shop_id = g.shop_id and l.subscription_id = g.subscription_id
  join endpoints e on e.shop_id = l.shop_id and e.id = l.endpoint_id
 where l.shard = any(${o.shards}::smallint[]) and l.ready_at <= now() + ${o.offsetMs} * interval '1 ms'
 limit ${o.limit}`,
    ),
  );
  return rows.map(toQueue);
}

/**
 * The database's time, and the time at which the next queue of the shards is ready after it; by the retry clock, ms.
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
            select l.ready_at from subscription_queues l
             where l.shard = s.shard and l.ready_at > now() + ${offset} * interval '1 ms'
             order by l.ready_at limit 1) n) as "nextMs"`,
    ),
  );
  return rows[0] ?? { nowMs: Date.now() + o.offsetMs, nextMs: null };
}

export interface Unloading extends QueueRef {
  readonly endpointId: bigint;
  /** Of an open circuit, by the retry clock, ms. */
  readonly pausedUntilMs: number | null;
}

/**
 * Stores when each queue is due next and returns that time; null for never. Leaves out, unchanged, queues that differ
 * from the given ones and queues that another transaction is writing.
 */
export async function unloadQueues(
  db: Queryable,
  queues: readonly Unloading[],
): Promise<Map<string, number | null>> {
  const heldMs = queues.map((queue) => queue.pausedUntilMs);
  const { rows } = await db.query<QueueRef & { readyMs: number | null }>(
    named(
      'unload-queues',
      sql`select shop as "shopId", subscription as "subscriptionId",
                 extract(epoch from ready)::float8 * 1000 as "readyMs"
            from unload_queues(
              ${queues.map((queue) => queue.shopId)}, ${queues.map((queue) => queue.subscriptionId)},
              ${queues.map((queue) => queue.endpointId)},
              array(select to_timestamp(u.ms / 1000)
                      from unnest(${heldMs}::float8[]) with ordinality as u (ms, n) order by u.n))`,
    ),
  );
  return new Map(rows.map((row) => [queueKeyOf(row), row.readyMs]));
}

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

export const QUEUE_COLUMNS = sql`l.shop_id as "shopId", l.subscription_id as "subscriptionId", l.endpoint_id as "endpointId", l.shard,
       e.flight_cap as "maxInFlight", e.consecutive_failures as failures,
       extract(epoch from e.failing_since)::float8 * 1000 as "failingSinceMs",
       e.failed_deliveries::text[] as failed,
       extract(epoch from e.circuit_opened_at)::float8 * 1000 as "openedAtMs",
       extract(epoch from e.held_until)::float8 * 1000 as "pausedUntilMs"`;

/**
 * Reschedules unloaded queues with due work: behind all ready queues, or after a pause. Skips queues that another
 * transaction is writing.
 *
 * @param pauseMs from now.
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
            select l.shop_id, l.subscription_id from subscription_queues l
              join ${queueRows('g', queues)}
                on g.shop_id = l.shop_id and g.subscription_id = l.subscription_id
             where l.ready_at <= now() + ${offset} * interval '1 ms'
             order by l.shop_id, l.subscription_id for no key update of l skip locked
          )
          update subscription_queues l set ready_at = now() + (${offset} + ${pauseMs}::float8) * interval '1 ms'
            from late where l.shop_id = late.shop_id and l.subscription_id = late.subscription_id`,
    ),
  );
}

/**
 * Marks the queues of an endpoint whose circuit closed ready if they wait for the next probe. Returns whether some were
 * skipped because another transaction is writing them.
 */
export async function markQueuesDue(
  db: Queryable,
  endpoint: { shopId: bigint; endpointId: bigint },
  offsetMs: number,
): Promise<boolean> {
  const { rows } = await db.query<{ isMore: boolean }>(
    `with held as (
       select shop_id, subscription_id from subscription_queues
        where shop_id = $1 and endpoint_id = $2 and ready_at > now() + $3 * interval '1 ms'
        order by shop_id, subscription_id for no key update skip locked
     ), woken as (
       update subscription_queues l set ready_at = now() + $3 * interval '1 ms'
         from held where l.shop_id = held.shop_id and l.subscription_id = held.subscription_id
          and l.ready_at is not null
       returning 1
     )
     select count(*) > (select count(*) from woken) as "isMore" from subscription_queues
      where shop_id = $1 and endpoint_id = $2 and ready_at > now() + $3 * interval '1 ms'`,
    [endpoint.shopId, endpoint.endpointId, offsetMs],
  );
  return rows[0]?.isMore ?? false;
}
