import type { Queryable } from '../../platform/postgres.ts';

/** What waits behind one subscription, and what becomes of it when the subscription changes. */
export interface Backlog {
  readonly shopId: bigint;
  readonly id: bigint;
}

/** How long a delivery may be held, by the retry clock. */
const HELD_DAYS = 30;

/** Deliveries that wait or are held go to another address, those in flight with their next attempt. */
export async function moveWaiting(
  tx: Queryable,
  { shopId, id }: Backlog,
  endpointId: bigint,
): Promise<void> {
  await tx.query(
    `update deliveries set endpoint_id = $3
      where shop_id = $1 and subscription_id = $2 and finished_at is null`,
    [shopId, id, endpointId],
  );
}

/** The subscription is inactive: what waits is held from now on. */
export async function holdWaiting(
  tx: Queryable,
  { shopId, id }: Backlog,
  offsetMs: number,
): Promise<void> {
  await tx.query(
    `update deliveries set state = 'held', held_since = now() + $3 * interval '1 ms'
      where shop_id = $1 and subscription_id = $2 and finished_at is null and state = 'waiting'`,
    [shopId, id, offsetMs],
  );
}

/** The subscription is active again: what is held goes on. What was held for too long is left to {@link expireHeld}. */
export async function releaseHeld(
  tx: Queryable,
  { shopId, id }: Backlog,
  offsetMs: number,
): Promise<void> {
  await tx.query(
    `update deliveries set state = 'waiting', held_since = null
      where shop_id = $1 and subscription_id = $2 and finished_at is null and state = 'held'
        and held_since >= now() + $3 * interval '1 ms' - interval '${HELD_DAYS} days'`,
    [shopId, id, offsetMs],
  );
}

/** The subscription is gone: what waits is dropped. One in flight may still arrive. */
export async function dropWaiting(tx: Queryable, { shopId, id }: Backlog): Promise<void> {
  await tx.query(
    `update deliveries
        set state = 'dropped', finished_at = now(), next_attempt_at = null, held_since = null
      where shop_id = $1 and subscription_id = $2 and finished_at is null`,
    [shopId, id],
  );
}

/** Ends what was held for 30 days. Returns how many, at most `limit` at a time. */
export async function expireHeld(
  db: Queryable,
  o: { offsetMs: number; limit: number },
): Promise<number> {
  const { rowCount } = await db.query(
    `with late as (
       select shop_id, id from deliveries
        where state = 'held' and held_since < now() + $1 * interval '1 ms' - interval '${HELD_DAYS} days'
        order by held_since limit $2 for update skip locked
     )
     update deliveries d
        set state = 'expired', finished_at = now(), next_attempt_at = null, held_since = null
       from late where d.shop_id = late.shop_id and d.id = late.id`,
    [o.offsetMs, o.limit],
  );
  return rowCount ?? 0;
}
