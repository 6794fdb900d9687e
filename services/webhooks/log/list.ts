import type pg from 'pg';
import { invalidField } from '../../platform/errors.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { param, sql, unnamed } from '../../platform/sql.ts';
import { subscriptionNotFound } from '../subscriptions/subscription.ts';
import { type Filter, isMatch } from './filter.ts';
import { type HydratedRow, hydrated, type LoggedDelivery, logged, stateOf } from './rows.ts';
import { sourceOf } from './sources.ts';

export interface PageRequest {
  /** Where the previous page ended; empty for the first page. */
  readonly cursor: string;
  readonly limit: number;
  readonly withBodies: boolean;
  /** Whether a deleted subscription counts as one that does not exist. */
  readonly liveOnly?: boolean;
}

/**
 * Returns a page of deliveries, newest event first, and the place where the next page begins. A page scans at most
 * 5,000 deliveries. So a page that is not the last may be shorter than its limit, or empty. One statement reads the
 * deliveries and their attempts, so that both are from one snapshot.
 *
 * @throws DomainError INVALID_ARGUMENT for a cursor that this service did not issue; NOT_FOUND when none of the
 *   filter's subscriptions exists.
 */
export async function listDeliveries(
  pool: pg.Pool,
  filter: Filter,
  request: PageRequest,
): Promise<{ deliveries: LoggedDelivery[]; nextCursor: string }> {
  const endId = request.cursor === '' ? filter.endId : idOfCursor(request.cursor);
  const rest = { ...filter, endId: endId < filter.endId ? endId : filter.endId };
  const { rows, scannedTo, isKnown } = await readPage(pool, rest, request);
  const [subscriptionId] = filter.subscriptionIds ?? [];
  if (subscriptionId !== undefined && !isKnown) throw subscriptionNotFound(subscriptionId);
  const page = rows.slice(0, request.limit);
  const next = rows.length > page.length ? page.at(-1)?.id : scannedTo;
  return {
    deliveries: page.map(logged),
    nextCursor: next === undefined ? '' : next.replaceAll('-', ''),
  };
}

const CURSOR = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;

function idOfCursor(cursor: string): string {
  const parts = CURSOR.exec(cursor)?.slice(1);
  if (!parts) throw invalidField('cursor', 'must be the cursor of a previous page');
  return parts.join('-');
}

/**
 * Reads one delivery more than the page has. If it exists, another page follows. `scannedTo` is set when the scan ended
 * at its limit. `isKnown` says whether one of the filter's subscriptions exists.
 */
async function readPage(
  db: Queryable,
  filter: Filter,
  { limit, withBodies, liveOnly = false }: PageRequest,
): Promise<{ rows: HydratedRow[]; scannedTo: string | undefined; isKnown: boolean }> {
  const source = sourceOf(filter, { limit });
  const { shopId } = filter;
  const subscriptions = param(filter.subscriptionIds);
  const { rows } = await db.query<PageRow>(
    unnamed(sql`
     with c as materialized (${source.sql}),
     shown as materialized (
       select c.*, s.deleted_at, st.state
         from c
         left join subscriptions s on s.shop_id = ${shopId} and s.id = c.subscription_id
        cross join lateral (select ${stateOf('c')} as state) st
        where (${subscriptions}::bigint[] is null or c.subscription_id = any(${subscriptions}))
          and ${isMatch(filter, 'c', sql`st.state`)}
        order by c.id desc limit ${limit + 1}
     )
     select h.*, (select count(*)::integer from c) as n, (select id from c order by id limit 1) as "scannedTo",
            exists (
              select from subscriptions s
               where s.shop_id = ${shopId} and s.id = any(${subscriptions}) and (s.deleted_at is null or not ${liveOnly})
            ) as "isKnown"
       from (select 1) one left join lateral (${hydrated({ shopId, withBodies, attempts: 'without headers' })}) h on true
      order by h.id desc`),
  );
  const [first] = rows;
  const isCut = first !== undefined && first.n >= source.scanned;
  const found = rows.flatMap(({ id, ...row }) => (id === null ? [] : [{ id, ...row }]));
  const scannedTo = isCut ? (first.scannedTo ?? undefined) : undefined;
  return { rows: found, scannedTo, isKnown: first?.isKnown === true };
}

/**
 * A delivery of the page, and how far the scan went. When no delivery was found, the columns of the delivery are null.
 */
interface PageRow extends Omit<HydratedRow, 'id'> {
  readonly id: string | null;
  readonly scannedTo: string | null;
  readonly n: number;
  readonly isKnown: boolean;
}
