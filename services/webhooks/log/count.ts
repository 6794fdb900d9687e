import type { Queryable } from '../../platform/postgres.ts';
import { param, sql, unnamed } from '../../platform/sql.ts';
import type { DeliveryState } from './delivery.ts';
import { type Filter, isMatch, occurredAt } from './filter.ts';
import { stateOf } from './rows.ts';
import { sourceOf } from './sources.ts';

/** The number of deliveries that match a filter. */
export interface DeliveryCount {
  readonly count: number;
  /** True when more deliveries may match, because the scan ended at its limit. */
  readonly isMore: boolean;
  /** Time of the event of the oldest counted delivery; null when none matches. */
  readonly oldestAt: Date | null;
  readonly states: readonly { readonly state: DeliveryState; readonly count: number }[];
}

/** Maximum number of deliveries that one count scans. The newest are scanned first. */
const MAX_COUNTED = 10_000;

interface Row {
  readonly state: DeliveryState | null;
  readonly count: number;
  readonly oldest: string | null;
  readonly scanned: number;
}

/**
 * Counts the deliveries that match a filter, by their state. Scans the same rows as the pages of the list, at most
 * 10,000.
 *
 * @param maxCounted maximum number of deliveries to scan.
 */
export async function countDeliveries(
  db: Queryable,
  filter: Filter,
  maxCounted = MAX_COUNTED,
): Promise<DeliveryCount> {
  const { shopId } = filter;
  const source = sourceOf(filter, { limit: 0, scanned: maxCounted + 1 });
  const subscriptions = param(filter.subscriptionIds);
  const { rows } = await db.query<Row>(
    unnamed(sql`
     with c as materialized (
       select w.*, row_number() over (order by w.id desc) as n from (${source.sql}) w
     ), matched as (
       select st.state, count(*)::integer as count, min(c.id::text) as oldest
         from c
         left join subscriptions s on s.shop_id = ${shopId} and s.id = c.subscription_id
        cross join lateral (select ${stateOf('c')} as state) st
        where c.n <= ${maxCounted}
          and (${subscriptions}::bigint[] is null or c.subscription_id = any(${subscriptions}))
          and ${isMatch(filter, 'c', sql`st.state`)}
        group by st.state
     )
     select m.state, m.count, m.oldest, (select count(*)::integer from c) as scanned
       from (select 1) one left join matched m on true order by m.state`),
  );
  const counted = rows.flatMap(({ state, ...row }) => (state === null ? [] : [{ state, ...row }]));
  const oldest = counted.flatMap((row) => row.oldest ?? []).toSorted()[0];
  return {
    count: counted.reduce((sum, { count }) => sum + count, 0),
    isMore: (rows[0]?.scanned ?? 0) > maxCounted,
    oldestAt: oldest === undefined ? null : occurredAt(oldest),
    states: counted.map(({ state, count }) => ({ state, count })),
  };
}
