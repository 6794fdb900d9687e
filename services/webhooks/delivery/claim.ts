import type pg from 'pg';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';

/** A delivery leased to this process, with all that its attempt needs. */
export interface Claimed {
  readonly shopId: bigint;
  readonly id: string;
  readonly leaseToken: bigint;
  readonly subscriptionId: bigint;
  readonly endpointId: bigint;
  readonly url: string;
  readonly eventId: string;
  readonly trigger: string;
  readonly apiVersion: string;
  readonly revision: bigint;
  readonly traceparent: string;
  /** Attempts of this round before this one. */
  readonly roundAttempts: number;
  readonly createdAt: Date;
  /** Null when it was removed while the delivery waited. */
  readonly body: Buffer | null;
}

/** Longer than any attempt, so that a lease only runs out when its holder is gone. */
const LEASE_SECONDS = 30;

/** Endpoints looked at by one claim. */
const MAX_ENDPOINTS = 256;

/**
 * Leases deliveries that are due, at most `limit`: one endpoint never has more in flight than its
 * cap, shops take turns, fresh deliveries go before retries.
 *
 * Endpoints are locked first, and counted by a second statement that sees what others committed
 * before: two processes cannot both fill the same endpoint. Rows that somebody else holds are
 * passed over, so that a claim waits for nothing and takes part in no deadlock.
 *
 * @param o.offsetMs of the retry clock.
 */
export function claimDue(
  pool: pg.Pool,
  o: { limit: number; offsetMs: number },
): Promise<Claimed[]> {
  return inTransaction(pool, async (tx) => {
    const { rows: endpoints } = await tx.query<{ shopId: bigint; id: bigint }>(LOCK_ENDPOINTS, [
      o.offsetMs,
      MAX_ENDPOINTS,
    ]);
    if (endpoints.length === 0) return [];
    const { rows } = await tx.query<Claimed>(CLAIM, [
      endpoints.map((endpoint) => endpoint.shopId),
      endpoints.map((endpoint) => endpoint.id),
      o.offsetMs,
      o.limit,
    ]);
    return rows;
  });
}

/**
 * The endpoints with something to claim are walked along the index, one step each, however long
 * their backlogs are: asked whether it has any, PostgreSQL would read every row that is due.
 * The order is random, so that no endpoint is always last when there are many.
 */
const LOCK_ENDPOINTS = `
with recursive busy as (
  (select shop_id, endpoint_id from deliveries
    where state = 'waiting' and lease_token is null
    order by shop_id, endpoint_id limit 1)
  union all
  select n.shop_id, n.endpoint_id
    from busy b cross join lateral (
      select d.shop_id, d.endpoint_id from deliveries d
       where d.state = 'waiting' and d.lease_token is null
         and (d.shop_id, d.endpoint_id) > (b.shop_id, b.endpoint_id)
       order by d.shop_id, d.endpoint_id limit 1) n
)
select e.shop_id as "shopId", e.id
  from busy b
  join endpoints e on e.shop_id = b.shop_id and e.id = b.endpoint_id
 cross join lateral (
   select from deliveries d
    where d.shop_id = e.shop_id and d.endpoint_id = e.id and d.state = 'waiting' and d.lease_token is null
      and d.next_attempt_at <= now() + $1 * interval '1 ms'
    limit 1) due
 where (select count(*) from deliveries l
         where l.shop_id = e.shop_id and l.endpoint_id = e.id and l.lease_token is not null) < e.flight_cap
 order by random() limit $2
   for no key update of e skip locked`;

const CLAIM = `
with room as (
  select e.shop_id, e.id, e.url, e.flight_cap - (
           select count(*) from deliveries l
            where l.shop_id = e.shop_id and l.endpoint_id = e.id and l.lease_token is not null) as free
    from unnest($1::bigint[], $2::bigint[]) as locked (shop_id, id)
    join endpoints e on e.shop_id = locked.shop_id and e.id = locked.id
), due as (
  select d.*, room.url,
         row_number() over (partition by d.shop_id order by d.nth, d.is_retry, d.next_attempt_at) as turn
    from room cross join lateral (
      select w.shop_id, w.id, (w.round_attempts > 0) as is_retry, w.next_attempt_at,
             row_number() over (order by (w.round_attempts > 0), w.next_attempt_at, w.position) as nth
        from deliveries w
       where w.shop_id = room.shop_id and w.endpoint_id = room.id and w.state = 'waiting'
         and w.lease_token is null and w.next_attempt_at <= now() + $3 * interval '1 ms'
       order by (w.round_attempts > 0), w.next_attempt_at, w.position
       limit greatest(room.free, 0)) d
), picked as (
  select due.shop_id, due.id, due.url from due order by due.turn, random() limit $4
), locked as (
  select d.shop_id, d.id, picked.url
    from picked join deliveries d on d.shop_id = picked.shop_id and d.id = picked.id
   where d.state = 'waiting' and d.lease_token is null
     for update of d skip locked
), leased as (
  update deliveries d
     set lease_token = nextval('delivery_leases'), lease_expires_at = now() + interval '${LEASE_SECONDS} seconds'
    from locked where d.shop_id = locked.shop_id and d.id = locked.id
  returning d.*, locked.url
)
select l.shop_id as "shopId", l.id, l.lease_token as "leaseToken", l.subscription_id as "subscriptionId",
       l.endpoint_id as "endpointId", l.url, l.event_id as "eventId", l.trigger, l.api_version as "apiVersion",
       l.revision, l.traceparent, l.round_attempts as "roundAttempts", l.created_at as "createdAt", p.body
  from leased l
  left join payloads p on p.shop_id = l.shop_id and p.id = l.payload_id`;

/**
 * Takes back what was leased to a process that is gone; it is due again at once. A late answer of
 * that process is refused by its token.
 */
export async function reapLeases(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `with lost as (
       select shop_id, id from deliveries where lease_expires_at < now()
        order by lease_expires_at limit 1000 for update skip locked
     )
     update deliveries d set lease_token = null, lease_expires_at = null
       from lost where d.shop_id = lost.shop_id and d.id = lost.id`,
  );
  return rowCount ?? 0;
}
