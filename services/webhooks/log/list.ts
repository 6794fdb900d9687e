import type pg from 'pg';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { param, raw, type Sql, sql, unnamed } from '../../platform/postgres/sql.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { occurredAt, rangeOfEvent, rangesOfEvents } from '../delivery-id.ts';
import { subscriptionNotFound } from '../subscriptions/subscription.ts';
import type { DeliveryState } from './delivery.ts';
import { type Filter, isMatch } from './filter.ts';
import {
  type HydratedRow,
  hydrated,
  LOGGED_COLUMNS,
  type LoggedDelivery,
  logged,
  stateOf,
} from './rows.ts';

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

/** Maximum number of deliveries that one page scans. So the search for a rare state ends. */
const MAX_SCANNED = 5_000;
/** Maximum number of waiting deliveries of each subscription that one page scans. */
const MAX_SCANNED_QUEUED = 500;
/** Maximum number of bodies of one return that one page scans. The newest are scanned first. */
const MAX_SCANNED_BODIES = 2_000;

/** The rows that a read of the log scans. */
interface Source {
  /** A query for the {@link LOGGED_COLUMNS}, newest first, at most `scanned` rows. */
  readonly sql: Sql;
  readonly scanned: number;
}

const QUEUED: readonly string[] = ['waiting', 'held'];

/**
 * Chooses which rows are scanned: the deliveries of a job, those of the events of a return, the queue, the deliveries
 * of a subscription, or all deliveries.
 *
 * @param o.limit size of the page.
 * @param o.scanned maximum number of rows from any source; by default as many as a page from this source needs.
 */
function sourceOf(
  filter: Filter,
  o: { readonly limit: number; readonly scanned?: number },
): Source {
  const { states, subscriptionIds, returnId, jobId, trigger, topic } = filter;
  const source = (sourceSql: SourceSql, ofPage: number): Source => {
    const { scanned = ofPage } = o;
    return { sql: sourceSql(filter, scanned), scanned };
  };
  if (jobId !== null) return source(ofJob, MAX_SCANNED);
  if (returnId !== null) return source(ofReturn, MAX_SCANNED);
  const isQueued = states.length > 0 && states.every((state) => QUEUED.includes(state));
  if (isQueued) return source(ofQueue, MAX_SCANNED_QUEUED);
  const isOne = subscriptionIds?.length === 1;
  const isPlain = states.length === 0 && trigger === '' && topic === '';
  const ofPage = isPlain && (isOne || subscriptionIds === null) ? o.limit + 1 : MAX_SCANNED;
  return source(isOne ? ofSubscription : ofShop, ofPage);
}

type SourceSql = (filter: Filter, scanned: number) => Sql;

// For a return, a job and the queue there is an inner limit. Without it, PostgreSQL may read all deliveries for the
// join. The page may begin in the middle of an event, whose bodies may have higher ids than the first delivery of the
// page.
const ofReturn: SourceSql = ({ shopId, returnId, firstId, endId }, scanned) => {
  const [shop, limit] = [param(shopId), param(scanned)];
  const bodies = sql`
   select p.id from payloads p
    where p.shop_id = ${shop} and p.return_id = ${returnId}
      and p.id between ${rangeOfEvent(firstId).first} and ${rangeOfEvent(endId).last}
    order by p.id desc limit ${raw(MAX_SCANNED_BODIES)}`;
  return sql`
select ${LOGGED_COLUMNS} from (${rangesOfEvents(bodies)}) r
 cross join lateral (
   select * from deliveries l
    where l.shop_id = ${shop} and l.id between r.first and r.last and l.id >= ${firstId} and l.id < ${endId}
    order by l.id desc limit ${limit}) d
 order by d.id desc limit ${limit}`;
};

const ofJob: SourceSql = ({ shopId, jobId, firstId, endId }, scanned) => {
  const [shop, limit] = [param(shopId), param(scanned)];
  return sql`
select ${LOGGED_COLUMNS} from (
   select j.delivery_id as id from job_deliveries j
    where j.shop_id = ${shop} and j.job_id = ${jobId} and j.delivery_id >= ${firstId} and j.delivery_id < ${endId}
    order by j.delivery_id desc limit ${limit}) w
 cross join lateral (
   select * from deliveries l where l.shop_id = ${shop} and l.id = w.id limit 1) d
 order by d.id desc`;
};

const ofQueue: SourceSql = ({ shopId, subscriptionIds, firstId, endId }, scanned) => {
  const [shop, limit, subscriptions] = [param(shopId), param(scanned), param(subscriptionIds)];
  return sql`
select ${LOGGED_COLUMNS} from subscriptions s
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
select ${LOGGED_COLUMNS} from deliveries d
 where d.shop_id = ${shopId} and d.subscription_id = ${subscriptionIds?.[0]} and d.id >= ${firstId} and d.id < ${endId}
 order by d.id desc limit ${scanned}`;

const ofShop: SourceSql = ({ shopId, firstId, endId }, scanned) => sql`
select ${LOGGED_COLUMNS} from deliveries d
 where d.shop_id = ${shopId} and d.id >= ${firstId} and d.id < ${endId}
 order by d.id desc limit ${scanned}`;
