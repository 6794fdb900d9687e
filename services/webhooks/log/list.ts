import type pg from 'pg';
import { invalidField } from '../../platform/errors.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { param, rowsOf, type Sql, sql, unnamed } from '../../platform/sql.ts';
import { type IdRange, rangeOfEvent } from '../delivery-id.ts';
import { type Filter, isMatch } from './filter.ts';
import {
  type HydratedRow,
  hydrated,
  LOGGED,
  type LoggedDelivery,
  logged,
  stateOf,
} from './rows.ts';

export interface PageRequest {
  /** Where the previous page ended, from its cursor; empty for the first page. */
  readonly cursor: string;
  readonly limit: number;
  readonly withBodies: boolean;
}

/** Maximum number of deliveries that one page scans, so that the search for a rare state ends. */
const MAX_SCANNED = 5_000;
/** Maximum number of waiting deliveries of each subscription that one page scans. */
const MAX_SCANNED_QUEUED = 500;
/** Maximum number of bodies of one return that one page scans, newest first. */
const MAX_SCANNED_BODIES = 2_000;

/**
 * Returns a page of deliveries, newest event first, and where the next page begins, for its cursor. A page that is not
 * the last may be shorter than its limit, or empty, because it scans at most 5,000 deliveries. One statement reads the
 * page with its attempts, so all are of one snapshot.
 *
 * @throws DomainError INVALID_ARGUMENT for a cursor that we did not issue.
 */
export async function listDeliveries(
  pool: pg.Pool,
  filter: Filter,
  request: PageRequest,
): Promise<{ deliveries: LoggedDelivery[]; nextCursor: string }> {
  const endId = request.cursor === '' ? filter.endId : idOfCursor(request.cursor);
  const rest = { ...filter, endId: endId < filter.endId ? endId : filter.endId };
  const { rows, scannedTo } = await readPage(pool, rest, request);
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

interface Source {
  /** A query for {@link LOGGED} columns, newest first, at most `scanned` rows. */
  readonly sql: Sql;
  readonly scanned: number;
}

/**
 * Reads one delivery more than the page has, so that the caller knows whether another page follows. `scannedTo` is set
 * if the scan ended at its limit.
 */
async function readPage(
  db: Queryable,
  filter: Filter,
  { limit, withBodies }: PageRequest,
): Promise<{ rows: HydratedRow[]; scannedTo: string | undefined }> {
  const source = await sourceOf(db, filter, limit);
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
     select h.*, (select count(*)::integer from c) as n, (select id from c order by id limit 1) as "scannedTo"
       from (select 1) one left join lateral (${hydrated({ shopId, withBodies, attempts: 'without headers' })}) h on true
      order by h.id desc`),
  );
  const [first] = rows;
  const isCut = first !== undefined && first.n >= source.scanned;
  const found = rows.flatMap(({ id, ...row }) => (id === null ? [] : [{ id, ...row }]));
  return { rows: found, scannedTo: isCut ? (first.scannedTo ?? undefined) : undefined };
}

/** A delivery of the page with the end of the scan. Without a delivery, its columns are null. */
interface PageRow extends Omit<HydratedRow, 'id'> {
  readonly id: string | null;
  readonly scannedTo: string | null;
  readonly n: number;
}

const QUEUED: readonly string[] = ['waiting', 'held'];

/** Chooses the rows to scan: the events of a return, the queue, the deliveries of a subscription, or all deliveries. */
async function sourceOf(db: Queryable, filter: Filter, limit: number): Promise<Source> {
  const { shopId, states, subscriptionIds, returnId, trigger, topic } = filter;
  const source = (sourceSql: SourceSql, scanned: number): Source => ({
    sql: sourceSql(filter, scanned),
    scanned,
  });
  if (returnId !== null) return source(ofEvents(await rangesOf(db, shopId, returnId)), MAX_SCANNED);
  const isQueued = states.length > 0 && states.every((state) => QUEUED.includes(state));
  if (isQueued) return source(ofQueue, MAX_SCANNED_QUEUED);
  const isOne = subscriptionIds?.length === 1;
  const isPlain = states.length === 0 && trigger === '' && topic === '';
  const scanned = isPlain && (isOne || subscriptionIds === null) ? limit + 1 : MAX_SCANNED;
  return source(isOne ? ofSubscription : ofShop, scanned);
}

async function rangesOf(db: Queryable, shopId: bigint, returnId: bigint): Promise<IdRange[]> {
  const { rows } = await db.query<{ id: string }>(
    'select id from payloads where shop_id = $1 and return_id = $2 order by id desc limit $3',
    [shopId, returnId, MAX_SCANNED_BODIES],
  );
  const ranges = rows.map(({ id }) => rangeOfEvent(id));
  return [...new Map(ranges.map((range) => [range.first, range])).values()];
}

type SourceSql = (filter: Filter, scanned: number) => Sql;

const rangeRows = rowsOf<IdRange>({
  first: ['uuid', ({ first }) => first],
  last: ['uuid', ({ last }) => last],
});

const ofEvents =
  (ranges: readonly IdRange[]): SourceSql =>
  ({ shopId, firstId, endId }, scanned) =>
    sql`
select ${LOGGED} from ${rangeRows('r', ranges)}
 cross join lateral (
   select * from deliveries l
    where l.shop_id = ${shopId} and l.id between r.first and r.last and l.id >= ${firstId} and l.id < ${endId}) d
 order by d.id desc limit ${scanned}`;

// Without the limit, PostgreSQL may read all deliveries to join them.
const ofQueue: SourceSql = ({ shopId, subscriptionIds, firstId, endId }, scanned) => {
  const [shop, limit, subscriptions] = [param(shopId), param(scanned), param(subscriptionIds)];
  return sql`
select ${LOGGED} from subscriptions s
 cross join lateral (
   select q.id from queue q
    where q.shop_id = ${shop} and q.subscription_id = s.id and q.id >= ${firstId} and q.id < ${endId}
    order by q.id desc limit ${limit}) w
  cross join lateral (
   select * from deliveries l where l.shop_id = ${shop} and l.id = w.id limit 1) d
 where s.shop_id = ${shop} and (${subscriptions}::bigint[] is null or s.id = any(${subscriptions}))
   and s.deleted_at is null
 order by d.id desc limit ${limit}`;
};

const ofSubscription: SourceSql = ({ shopId, subscriptionIds, firstId, endId }, scanned) => sql`
select ${LOGGED} from deliveries d
 where d.shop_id = ${shopId} and d.subscription_id = ${subscriptionIds?.[0]} and d.id >= ${firstId} and d.id < ${endId}
 order by d.id desc limit ${scanned}`;

const ofShop: SourceSql = ({ shopId, firstId, endId }, scanned) => sql`
select ${LOGGED} from deliveries d
 where d.shop_id = ${shopId} and d.id >= ${firstId} and d.id < ${endId}
 order by d.id desc limit ${scanned}`;
