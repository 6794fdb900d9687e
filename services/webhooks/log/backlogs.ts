import type { Queryable } from '../../platform/postgres.ts';
import { occurredAt } from './filter.ts';

/** The waiting or held deliveries of a subscription. */
export interface Backlog {
  /** At most 1,000. */
  readonly count: number;
  readonly isMore: boolean;
  /** Time of the oldest waiting event; null when no delivery waits. */
  readonly oldestAt: Date | null;
}

const MAX_COUNTED = 1_000;

/**
 * Returns the waiting or held deliveries of each subscription of a shop that is not deleted.
 *
 * @param subscriptionId only of this one.
 */
export async function backlogsOf(
  db: Queryable,
  shopId: bigint,
  subscriptionId?: bigint,
): Promise<ReadonlyMap<bigint, Backlog>> {
  const { rows } = await db.query<{ id: bigint; count: number; oldest: string | null }>(
    `select s.id, w.count, (
              select q.id from queue q where q.shop_id = $1 and q.subscription_id = s.id order by q.id limit 1
            ) as oldest
       from subscriptions s
      cross join lateral (
        select count(*)::integer as count from (
          select from queue q where q.shop_id = $1 and q.subscription_id = s.id limit ${MAX_COUNTED + 1}) q) w
      where s.shop_id = $1 and ($2::bigint is null or s.id = $2) and s.deleted_at is null`,
    [shopId, subscriptionId ?? null],
  );
  return new Map(
    rows.map(({ id, count, oldest }) => [
      id,
      {
        count: Math.min(count, MAX_COUNTED),
        isMore: count > MAX_COUNTED,
        oldestAt: oldest === null ? null : occurredAt(oldest),
      },
    ]),
  );
}
