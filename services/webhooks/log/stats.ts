import type { Queryable } from '../../platform/postgres.ts';
import { rowsOf, sql, unnamed } from '../../platform/sql.ts';
import { subscriptionNotFound } from '../subscriptions/subscription.ts';
import { idAt } from './filter.ts';

/** The numbers of deliveries whose events occurred in one hour. */
export interface HourCount {
  readonly startsAt: Date;
  readonly delivered: number;
  /** Number of deliveries that are exhausted or have expired. */
  readonly failed: number;
  /** Number of deliveries that wait or are held. */
  readonly waiting: number;
  /** Number of those that wait and whose last attempt failed. */
  readonly retrying: number;
  /** True when the hour had more deliveries than were counted. */
  readonly isMore: boolean;
}

const HOUR_MS = 3_600_000;
/**
 * Maximum number of deliveries of an hour that are counted, newest first. So the number of rows that the statement
 * reads is bounded.
 */
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
 * Counts the deliveries of the last hours, oldest first. Test events do not count. It is one statement over ranges of
 * ids.
 *
 * @param o.subscriptionId null for all subscriptions.
 * @param o.hours number of hours, including the current one.
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

/**
 * Requires that the shop has or had this subscription. The log of a deleted one is kept. @throws DomainError NOT_FOUND.
 */
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
