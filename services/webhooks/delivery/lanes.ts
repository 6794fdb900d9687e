import type { Queryable } from '../../platform/postgres.ts';
import type { EndpointHealth } from './endpoint.ts';
import { endpointKeyOf, type LaneRef, laneKeyOf } from './lane.ts';

/** A lane as it lies in the table, with how its endpoint fares. */
export interface StoredLane extends LaneRef {
  readonly key: string;
  readonly endpointId: bigint;
  readonly endpointKey: string;
  readonly shard: number;
  readonly health: EndpointHealth;
}

interface Row extends LaneRef {
  endpointId: bigint;
  shard: number;
  flightCap: number;
  failures: number;
  failingSinceMs: number | null;
  failed: string[];
  openedAtMs: number | null;
  heldUntilMs: number | null;
}

export interface Finding {
  readonly shards: readonly number[];
  readonly limit: number;
  readonly offsetMs: number;
}

/**
 * Lanes of the shards that are ready, those that have been for longest first, without those given. One of
 * these that goes to another endpoint by now is found all the same.
 */
export async function findReadyLanes(
  db: Queryable,
  o: Finding & { except: readonly (LaneRef & { readonly endpointId: bigint })[] },
): Promise<StoredLane[]> {
  const { rows } = await db.query<Row>({
    name: 'find-ready-lanes',
    text: FIND,
    values: [
      o.shards,
      o.except.map((lane) => lane.shopId),
      o.except.map((lane) => lane.subscriptionId),
      o.except.map((lane) => lane.endpointId),
      o.limit,
      o.offsetMs,
    ],
  });
  return rows.map(toLane);
}

/** Those of the lanes that are ready and in the shards. */
export async function findLanes(
  db: Queryable,
  lanes: readonly LaneRef[],
  o: Finding,
): Promise<StoredLane[]> {
  const { rows } = await db.query<Row>({
    name: 'find-lanes',
    text: FIND_GIVEN,
    values: [
      lanes.map((lane) => lane.shopId),
      lanes.map((lane) => lane.subscriptionId),
      o.shards,
      o.limit,
      o.offsetMs,
    ],
  });
  return rows.map(toLane);
}

/** The database's time, and when the next lane of the shards is ready after it; by the retry clock, ms. */
export async function findNextReady(
  db: Queryable,
  o: { shards: readonly number[]; offsetMs: number },
): Promise<{ nowMs: number; nextMs: number | null }> {
  const { rows } = await db.query<{ nowMs: number; nextMs: number | null }>({
    name: 'find-next-ready',
    text: FIND_NEXT,
    values: [o.shards, o.offsetMs],
  });
  return rows[0] ?? { nowMs: Date.now() + o.offsetMs, nextMs: null };
}

export interface Parking extends LaneRef {
  readonly endpointId: bigint;
  /** Of an open circuit, by the retry clock, ms. */
  readonly heldUntilMs: number | null;
}

/**
 * Has the lanes looked at again when they are due; says when that is: null for never. Those that are not
 * as given, and those that somebody writes to at this moment, are left as they are and out.
 */
export async function parkLanes(
  db: Queryable,
  lanes: readonly Parking[],
): Promise<Map<string, number | null>> {
  const { rows } = await db.query<LaneRef & { readyMs: number | null }>({
    name: 'park-lanes',
    text: `select shop as "shopId", subscription as "subscriptionId",
                  extract(epoch from ready)::float8 * 1000 as "readyMs"
             from park_lanes($1, $2, $3, array(
               select to_timestamp(u.ms / 1000) from unnest($4::float8[]) with ordinality as u (ms, n) order by u.n))`,
    values: [
      lanes.map((lane) => lane.shopId),
      lanes.map((lane) => lane.subscriptionId),
      lanes.map((lane) => lane.endpointId),
      lanes.map((lane) => lane.heldUntilMs),
    ],
  });
  return new Map(rows.map((row) => [laneKeyOf(row), row.readyMs]));
}

function toLane(row: Row): StoredLane {
  const { shopId, subscriptionId, endpointId, shard } = row;
  const { flightCap, failures, failingSinceMs, failed, openedAtMs, heldUntilMs } = row;
  const circuit = openedAtMs === null || heldUntilMs === null ? null : { openedAtMs, heldUntilMs };
  return {
    key: laneKeyOf(row),
    shopId,
    subscriptionId,
    endpointId,
    endpointKey: endpointKeyOf(row),
    shard,
    health: { flightCap, failures, failingSinceMs, failed, circuit },
  };
}

const COLUMNS = `l.shop_id as "shopId", l.subscription_id as "subscriptionId", l.endpoint_id as "endpointId", l.shard,
       e.flight_cap as "flightCap", e.consecutive_failures as failures,
       extract(epoch from e.failing_since)::float8 * 1000 as "failingSinceMs",
       e.failed_deliveries::text[] as failed,
       extract(epoch from e.circuit_opened_at)::float8 * 1000 as "openedAtMs",
       extract(epoch from e.held_until)::float8 * 1000 as "heldUntilMs"`;

const FIND = `
select ${COLUMNS}
  from unnest($1::smallint[]) as s (shard)
 cross join lateral (
   select * from lanes r
    where r.shard = s.shard and r.ready_at <= now() + $6 * interval '1 ms'
      and (r.shop_id, r.subscription_id, r.endpoint_id) not in (
        select * from unnest($2::bigint[], $3::bigint[], $4::bigint[]))
    order by r.ready_at limit $5) l
  join endpoints e on e.shop_id = l.shop_id and e.id = l.endpoint_id
 order by l.ready_at limit $5`;

const FIND_GIVEN = `
select ${COLUMNS}
  from unnest($1::bigint[], $2::bigint[]) as g (shop_id, subscription_id)
  join lanes l on l.shop_id = g.shop_id and l.subscription_id = g.subscription_id
  join endpoints e on e.shop_id = l.shop_id and e.id = l.endpoint_id
 where l.shard = any($3::smallint[]) and l.ready_at <= now() + $5 * interval '1 ms'
 limit $4`;

const FIND_NEXT = `
select extract(epoch from now())::float8 * 1000 + $2 as "nowMs", (
         select extract(epoch from min(n.ready_at))::float8 * 1000
           from unnest($1::smallint[]) as s (shard)
          cross join lateral (
            select l.ready_at from lanes l
             where l.shard = s.shard and l.ready_at > now() + $2 * interval '1 ms'
             order by l.ready_at limit 1) n) as "nextMs"`;

/**
 * Lanes that are let go of although something is due go behind all that are ready, or are ready again
 * after a pause. Those that somebody writes to at this moment keep their place.
 *
 * @param pauseMs from now on.
 */
export async function putBack(
  db: Queryable,
  lanes: readonly LaneRef[],
  { offsetMs, pauseMs = 0 }: { offsetMs: number; pauseMs?: number },
): Promise<void> {
  await db.query({
    name: 'put-back-lanes',
    text: `with late as (
             select l.shop_id, l.subscription_id from lanes l
               join unnest($1::bigint[], $2::bigint[]) as g (shop_id, subscription_id)
                 on g.shop_id = l.shop_id and g.subscription_id = l.subscription_id
              where l.ready_at <= now() + $3 * interval '1 ms'
              order by l.shop_id, l.subscription_id for no key update of l skip locked
           )
           update lanes l set ready_at = now() + ($3 + $4::float8) * interval '1 ms'
             from late where l.shop_id = late.shop_id and l.subscription_id = late.subscription_id`,
    values: [
      lanes.map((lane) => lane.shopId),
      lanes.map((lane) => lane.subscriptionId),
      offsetMs,
      pauseMs,
    ],
  });
}

/**
 * The circuit of an endpoint closed: its lanes that wait for its next probe are ready now. Returns
 * whether there are more, which somebody writes to at this moment.
 */
export async function wakeLanesOf(
  db: Queryable,
  endpoint: { shopId: bigint; endpointId: bigint },
  offsetMs: number,
): Promise<boolean> {
  const { rows } = await db.query<{ isMore: boolean }>(
    `with held as (
       select shop_id, subscription_id from lanes
        where shop_id = $1 and endpoint_id = $2 and ready_at > now() + $3 * interval '1 ms'
        order by shop_id, subscription_id for no key update skip locked
     ), woken as (
       update lanes l set ready_at = now() + $3 * interval '1 ms'
         from held where l.shop_id = held.shop_id and l.subscription_id = held.subscription_id
          and l.ready_at is not null
       returning 1
     )
     select count(*) > (select count(*) from woken) as "isMore" from lanes
      where shop_id = $1 and endpoint_id = $2 and ready_at > now() + $3 * interval '1 ms'`,
    [endpoint.shopId, endpoint.endpointId, offsetMs],
  );
  return rows[0]?.isMore ?? false;
}
