import type pg from 'pg';
import { invalidField } from '../../platform/errors.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { rangeOfEvent } from '../delivery-id.ts';
import type { Filter } from './filter.ts';
import {
  type DeliveryRow,
  hydrated,
  LOGGED,
  type LoggedDelivery,
  STATE,
  withAttempts,
} from './rows.ts';

export interface PageWish {
  /** Cursor of the previous page; empty for the first page. */
  readonly cursor: string;
  readonly limit: number;
  readonly withBodies: boolean;
}

/** Most deliveries that one page scans, so that the search for a rare state ends. */
const SCANNED = 5_000;
/** The same limit for waiting deliveries, per subscription. */
const SCANNED_QUEUED = 500;
/** The newest bodies of one return, of which a page scans at most this many. */
const BODIES_OF_RETURN = 2_000;

/**
 * A page of deliveries, newest event first, and the cursor of the next page. A page may be shorter than its limit, or
 * empty, and still not be the last, because it scans at most 5,000 deliveries.
 *
 * @throws DomainError INVALID_ARGUMENT for a cursor that we did not issue.
 */
export function listDeliveries(
  pool: pg.Pool,
  filter: Filter,
  wish: PageWish,
): Promise<{ deliveries: LoggedDelivery[]; nextCursor: string }> {
  const endId = wish.cursor === '' ? filter.endId : idOfCursor(wish.cursor);
  const rest = { ...filter, endId: endId < filter.endId ? endId : filter.endId };
  return inTransaction(pool, async (tx) => {
    // One snapshot for the deliveries and their attempts.
    await tx.query('set transaction isolation level repeatable read, read only');
    const { rows, scannedTo } = await readPage(tx, rest, wish);
    const page = rows.slice(0, wish.limit);
    const next = rows.length > page.length ? page.at(-1)?.id : scannedTo;
    return {
      deliveries: await withAttempts(tx, filter.shopId, page),
      nextCursor: next === undefined ? '' : next.replaceAll('-', ''),
    };
  });
}

const CURSOR = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;

function idOfCursor(cursor: string): string {
  const parts = CURSOR.exec(cursor)?.slice(1);
  if (!parts) throw invalidField('cursor', 'must be the cursor of a previous page');
  return parts.join('-');
}

interface Source {
  /** A query for {@link LOGGED} columns, newest first, at most $5 rows. */
  readonly sql: string;
  readonly scanned: number;
  /** $6 and $7. */
  readonly ranges: readonly { readonly first: string; readonly last: string }[];
}

/** Reads one more than the page to know whether another follows, and how far it scanned if there may be more. */
async function readPage(
  tx: Queryable,
  filter: Filter,
  { limit, withBodies }: PageWish,
): Promise<{ rows: DeliveryRow[]; scannedTo: string | undefined }> {
  const source = await sourceOf(tx, filter, limit);
  const { rows } = await tx.query<PageRow>(
    `with c as materialized (${source.sql}),
     shown as materialized (
       select c.*, s.deleted_at, st.state
         from c
         left join subscriptions s on s.shop_id = $1 and s.id = c.subscription_id
        cross join lateral (select ${STATE.replaceAll('d.ended', 'c.ended')} as state) st
        where ($2::bigint[] is null or c.subscription_id = any($2))
          and (cardinality($8::text[]) = 0 or st.state = any($8))
          and ($9 = '' or c.trigger = $9) and ($10 = '' or c.topic = $10)
        order by c.id desc limit $11
     )
     select h.*, (select count(*)::integer from c) as n, (select id from c order by id limit 1) as "scannedTo"
       from (select 1) one left join lateral (${hydrated({ shopParameter: '$1', withBodies })}) h on true
      order by h.id desc`,
    [
      filter.shopId,
      filter.subscriptionIds,
      filter.firstId,
      filter.endId,
      source.scanned,
      source.ranges.map(({ first }) => first),
      source.ranges.map(({ last }) => last),
      filter.states,
      filter.trigger,
      filter.topic,
      limit + 1,
    ],
  );
  const [first] = rows;
  const isCut = first !== undefined && first.n >= source.scanned;
  const found = rows.flatMap(({ id, ...row }) => (id === null ? [] : [{ id, ...row }]));
  return { rows: found, scannedTo: isCut ? (first.scannedTo ?? undefined) : undefined };
}

/** A delivery of the page, or null columns, with how far was scanned. */
interface PageRow extends Omit<DeliveryRow, 'id'> {
  readonly id: string | null;
  readonly scannedTo: string | null;
  readonly n: number;
}

const QUEUED: readonly string[] = ['waiting', 'held'];

/** Chooses what to scan: a return's events, the queue, a subscription's deliveries, or all. */
async function sourceOf(tx: Queryable, filter: Filter, limit: number): Promise<Source> {
  const { states, subscriptionIds, returnId, trigger, topic } = filter;
  if (returnId !== null) {
    const ranges = await rangesOf(tx, filter.shopId, returnId);
    return { sql: OF_RETURN, scanned: SCANNED, ranges };
  }
  const isQueued = states.length > 0 && states.every((state) => QUEUED.includes(state));
  if (isQueued) return { sql: OF_QUEUE, scanned: SCANNED_QUEUED, ranges: [] };
  const isOne = subscriptionIds?.length === 1;
  const isPlain = states.length === 0 && trigger === '' && topic === '';
  const scanned = isPlain && (isOne || subscriptionIds === null) ? limit + 1 : SCANNED;
  return { sql: isOne ? OF_SUBSCRIPTION : OF_SHOP, scanned, ranges: [] };
}

async function rangesOf(tx: Queryable, shopId: bigint, returnId: bigint) {
  const { rows } = await tx.query<{ id: string }>(
    'select id from payloads where shop_id = $1 and return_id = $2 order by id desc limit $3',
    [shopId, returnId, BODIES_OF_RETURN],
  );
  const ranges = rows.map(({ id }) => rangeOfEvent(id));
  return [...new Map(ranges.map((range) => [range.first, range])).values()];
}

/** The parameters that a statement does not use still need a type. */
const TYPED = '$2::bigint[] is not distinct from $2 and $6::uuid[] is not distinct from $7::uuid[]';

const OF_RETURN = `
select ${LOGGED} from unnest($6::uuid[], $7::uuid[]) as r (first, last)
 cross join lateral (
   select * from deliveries l
    where l.shop_id = $1 and l.id between r.first and r.last and l.id >= $3 and l.id < $4) d
 order by d.id desc limit $5`;

const OF_QUEUE = `
select ${LOGGED} from subscriptions s
 cross join lateral (
   select q.id from queue q
    where q.shop_id = $1 and q.subscription_id = s.id and q.id >= $3 and q.id < $4
    order by q.id desc limit $5) w
  join deliveries d on d.shop_id = $1 and d.id = w.id
 where s.shop_id = $1 and ($2::bigint[] is null or s.id = any($2)) and s.deleted_at is null
   and ${TYPED}
 order by d.id desc limit $5`;

const OF_SUBSCRIPTION = `
select ${LOGGED} from deliveries d
 where d.shop_id = $1 and d.subscription_id = ($2::bigint[])[1] and d.id >= $3 and d.id < $4 and ${TYPED}
 order by d.id desc limit $5`;

const OF_SHOP = `
select ${LOGGED} from deliveries d
 where d.shop_id = $1 and d.id >= $3 and d.id < $4 and ${TYPED}
 order by d.id desc limit $5`;
