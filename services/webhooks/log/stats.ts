import type { Queryable } from '../../platform/postgres.ts';
import { rowsOf, sql, unnamed } from '../../platform/sql.ts';
import { subscriptionNotFound } from '../subscriptions/subscription.ts';
import { idAt } from './filter.ts';

/** The deliveries whose event happened in one hour. */
export interface HourCount {
  readonly startsAt: Date;
  readonly delivered: number;
  /** Exhausted or expired. */
  readonly failed: number;
  /** Waiting or held. */
  readonly waiting: number;
  /** Those that wait, and whose last attempt failed. */
  readonly retrying: number;
  /** True when the hour had more deliveries than were counted. */
  readonly isMore: boolean;
}

const HOUR_MS = 3_600_000;
/** Maximum number of deliveries of an hour that are counted, newest first. So the statement reads a bounded part. */
const MAX_OF_HOUR = 10_000;

interface Hour {
  readonly n: number;
  readonly first: string;
  readonly end: string;
}

const hourRows = rowsOf<Hour>({
  n: ['integer', ({ n }) => n],
  first: ['uuid', ({ first }) => first],
  end_id: ['uuid', ({ end }) => end],
});

/**
 * Counts the deliveries of the last hours, oldest first, without test events. One statement over ranges of ids.
 *
 * @param o.subscriptionId null for all subscriptions. @param o.hours the current hour included.
 */
export async function countByHour(
  db: Queryable,
  o: {
    readonly shopId: bigint;
    readonly subscriptionId: bigint | null;
    readonly hours: number;
    readonly now: Date;
  },
): Promise<HourCount[]> {
  const current = Math.floor(o.now.getTime() / HOUR_MS) * HOUR_MS;
  const starts = Array.from(
    { length: o.hours },
    (_, n) => new Date(current - (o.hours - 1 - n) * HOUR_MS),
  );
  const hours = starts.map((start, n) => ({
    n,
    first: idAt(start),
    end: idAt(new Date(start.getTime() + HOUR_MS)),
  }));
  const { rows } = await db.query<Omit<HourCount, 'startsAt'> & { n: number }>(
    unnamed(sql`
     select h.n, c.delivered, c.failed, c.waiting, c.retrying, c.counted >= ${MAX_OF_HOUR} as "isMore"
       from ${hourRows('h', hours)}
      cross join lateral (
        select count(*)::integer as counted,
               count(*) filter (where d.ended = 'delivered')::integer as delivered,
               count(*) filter (where d.ended in ('exhausted', 'expired'))::integer as failed,
               count(*) filter (where d.ended is null)::integer as waiting,
               count(*) filter (where d.ended is null and (
                 select q.round_attempts from queue q
                  where q.shop_id = ${o.shopId} and q.subscription_id = d.subscription_id and q.id = d.id) > 0
               )::integer as retrying
          from (select l.id, l.subscription_id, l.ended from deliveries l
                 where l.shop_id = ${o.shopId} and l.id >= h.first and l.id < h.end_id
                   and (${o.subscriptionId}::bigint is null or l.subscription_id = ${o.subscriptionId}) and not l.is_test
                 order by l.id desc limit ${MAX_OF_HOUR}) d) c
      order by h.n`),
  );
  return rows.flatMap(({ n, ...count }) => {
    const startsAt = starts[n];
    return startsAt ? [{ startsAt, ...count }] : [];
  });
}

/** Requires a subscription of the shop; its log is kept after it was deleted. @throws DomainError NOT_FOUND. */
export async function requireLogged(
  db: Queryable,
  { shopId, subscriptionId }: { readonly shopId: bigint; readonly subscriptionId: bigint },
): Promise<void> {
  const { rowCount } = await db.query('select from subscriptions where shop_id = $1 and id = $2', [
    shopId,
    subscriptionId,
  ]);
  if (rowCount !== 1) throw subscriptionNotFound(subscriptionId);
}
