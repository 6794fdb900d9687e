import type { BusRecord } from '../bus/event-bus.ts';
import { onlyRow } from '../postgres/only-row.ts';
import type { Queryable } from '../postgres/postgres.ts';
import { SHARDS } from './append.ts';

export interface StoredEvent {
  readonly position: bigint;
  readonly record: BusRecord;
}

/**
 * The open transactions, by their number in the form of PostgreSQL. Each has a position: all events of the transaction
 * up to it are published.
 */
export type OpenTransactions = ReadonlyMap<string, bigint>;

/** How far a shard is published. This is a row of `outbox_progress`, whose migration describes the columns. */
export interface Progress {
  readonly position: bigint;
  readonly open: OpenTransactions;
  readonly waiting: readonly bigint[];
}

/** The progress to record for a shard, and the events to read from it. */
export interface ShardRequest extends Progress {
  readonly shard: number;
  /** Version of the row of the shard; -1 when it is not known. */
  readonly version: bigint;
  /** Whether the progress has changed, so that the row must be updated. */
  readonly isChanged: boolean;
  /** Positions of waiting events that must be read again. */
  readonly retry: readonly bigint[];
  /** Maximum number of events to read. */
  readonly limit: number;
  /** Maximum number of bytes of the events. The first event is read even if it is larger. */
  readonly maxBytes: number;
}

/** Unpublished events of a shard, in order of position. */
export interface ShardPage {
  readonly shard: number;
  readonly version: bigint;
  /** Transactions that may have been open when the page was read; empty for a page without events. */
  readonly inProgress: readonly string[];
  readonly events: readonly (StoredEvent & { readonly bytes: number })[];
  /** Whether the page ended at a limit, so that the shard may have more events. */
  readonly isCut: boolean;
}

/** The row of the shard has another version than the request. So the statement wrote nothing and read no events. */
export interface ShardMoved extends Progress {
  readonly shard: number;
  readonly version: bigint;
  readonly isMoved: true;
}

interface EventRow {
  position: bigint;
  key: string;
  event_id: string;
  trigger: string;
  traceparent: string;
  tracestate: string;
  value: Buffer;
}

type ReadRow = { shard: number; limit: number; version: bigint | null; snapshot: string } & (
  | { is_moved: true; read_to: bigint; open: string[]; open_after: bigint[]; waiting: bigint[] }
  | (EventRow & { is_moved: false; found: bigint; bytes: number; own_number: string })
  | { is_moved: false; found: null }
);

/**
 * The commit of this statement does not wait for the disk: after a crash of the database, the events are published
 * again. The statement returns no event twice. Waiting events were read before, so they are not in an open transaction.
 */
const ADVANCE = `
with request as materialized (
  select * from json_to_recordset($1::json) as a (shard smallint, version bigint, is_changed boolean, position bigint,
    open xid8[], open_after bigint[], waiting bigint[], retry bigint[], "limit" integer, max_bytes bigint)
), recorded as (
  update outbox_progress p
     set version = p.version + 1, position = a.position, open = a.open, open_after = a.open_after, waiting = a.waiting
    from request a where a.is_changed and p.shard = a.shard and p.version = a.version
  returning p.shard, p.version
), current as (
  select set_config('synchronous_commit', 'off', true), pg_current_snapshot()::text as snapshot
)
select a.shard, a."limit", current.snapshot, m.*, e.*,
       case when e.position is not null then pg_current_xact_id()::text end as own_number
  from current, request a
  join outbox_progress p on p.shard = a.shard
  left join recorded r on r.shard = a.shard
 cross join lateral (
   select p.version <> a.version as is_moved,
          case when p.version = a.version and a.is_changed then r.version else p.version end as version,
          case when p.version <> a.version then p.position end as read_to,
          case when p.version <> a.version then p.open::text[] end as open,
          case when p.version <> a.version then p.open_after end as open_after,
          case when p.version <> a.version then p.waiting end as waiting
 ) m
  left join lateral (
    select array_agg(o.xid) as xids, array_agg(o.after) as afters, min(o.after) as after
      from unnest(a.open, a.open_after) as o (xid, after)
     where o.xid <> all (array(select pg_snapshot_xip(pg_current_snapshot())))
  ) ended on true
  left join lateral (
    select counted.*
      from (
        select found.position, found.key, found.event_id, found.trigger, found.traceparent, found.tracestate, found.value,
               length(found.value) as bytes, count(*) over () as found,
               sum(length(found.value)) over (order by found.position) as bytes_through
          from (
            (select * from events waiting
              where waiting.shard = a.shard and waiting.position = any (a.retry))
            union all
            (select * from events later
              where later.shard = a.shard and later.position > least(a.position, ended.after)
                and (later.position > a.position or exists (
                  select from unnest(ended.xids, ended.afters) as o (xid, after)
                   where o.xid = later.written_by and later.position > o.after))
              order by later.position limit a."limit")
            order by position limit a."limit"
          ) found
      ) counted
     where counted.bytes_through <= a.max_bytes or counted.bytes_through = counted.bytes
  ) e on not m.is_moved
 order by a.shard, e.position`;

/**
 * Records how far shards are published and reads their next events, in one statement. It reads the bytes of an event
 * only when it returns the event. It skips a shard whose row another relay has changed.
 */
export async function advance(
  db: Queryable,
  requests: readonly ShardRequest[],
): Promise<(ShardPage | ShardMoved)[]> {
  const { rows } = await db.query<ReadRow>({
    name: 'outbox-advance',
    text: ADVANCE,
    values: [JSON.stringify(requests.map(toJson))],
  });
  return [...Map.groupBy(rows, ({ shard }) => shard).values()].map(toPage);
}

function toJson(o: ShardRequest): object {
  return {
    shard: o.shard,
    version: String(o.version),
    is_changed: o.isChanged,
    position: String(o.position),
    open: [...o.open.keys()],
    open_after: [...o.open.values()].map(String),
    waiting: o.waiting.map(String),
    retry: o.retry.map(String),
    limit: o.limit,
    max_bytes: o.maxBytes,
  };
}

/** Converts rows to a page. @param rows all rows of one shard, at least one. */
function toPage(rows: readonly ReadRow[]): ShardPage | ShardMoved {
  const [first] = rows;
  if (!first) throw new Error('a shard has a row');
  const { shard, limit } = first;
  const version = first.version ?? -1n;
  if (first.is_moved) {
    const open = new Map(first.open.map((xid, nth) => [xid, first.open_after[nth] ?? 0n]));
    return { shard, version, isMoved: true, position: first.read_to, open, waiting: first.waiting };
  }
  const found = first.found ?? 0n;
  const events = rows.flatMap((row) =>
    row.is_moved || row.found === null ? [] : [{ ...toStored(row), bytes: row.bytes }],
  );
  const isCut = BigInt(events.length) < found || (limit > 0 && events.length >= limit);
  const inProgress =
    first.found === null ? [] : numbersInProgress(first.snapshot, first.own_number);
  return { shard, version, inProgress, events, isCut };
}

/**
 * Returns the transactions that may have been open. A snapshot `xmin:xmax:xip` lists open transactions only below
 * `xmax`, which is the greatest ended number plus one. The numbers from `xmax` up to that of the reading transaction
 * may be open too, because the reading transaction draws its number last.
 */
function numbersInProgress(snapshot: string, own: string): string[] {
  const [, end = own, named = ''] = snapshot.split(':');
  const numbers = named === '' ? [] : named.split(',');
  for (let number = BigInt(end); number < BigInt(own); number += 1n) numbers.push(String(number));
  return numbers;
}

function toStored(row: EventRow): StoredEvent {
  return {
    position: row.position,
    record: {
      key: row.key,
      value: row.value,
      headers: {
        event_id: row.event_id,
        trigger: row.trigger,
        ...(row.traceparent === '' ? {} : { traceparent: row.traceparent }),
        ...(row.tracestate === '' ? {} : { tracestate: row.tracestate }),
      },
    },
  };
}

export interface Backlog {
  readonly depth: number;
  /** Age of the oldest unpublished event; 0 when there is none. */
  readonly ageSeconds: number;
}

/**
 * Reads the number and age of unpublished events. Counts up to 1,000 events of a shard. Above this it estimates the
 * number by the positions that were drawn after the last published one.
 */
export async function backlogOf(db: Queryable): Promise<Backlog> {
  const result = await db.query<{ depth: bigint | null; age: number | null }>(
    `select sum(case when first.count < 1000 then first.count
                     else greatest(first.count, (drawn.last_value - p.position) / ${SHARDS}) end)::bigint as depth,
            extract(epoch from clock_timestamp() - min(first.oldest))::float8 as age
       from event_positions drawn, outbox_progress p
      cross join lateral (
        select count(*) as count, min(created_at) as oldest
          from (select created_at from outbox where shard = p.shard limit 1000) counted
      ) first`,
  );
  const { depth, age } = onlyRow(result);
  return { depth: Number(depth ?? 0n), ageSeconds: Math.max(0, age ?? 0) };
}

/** Returns those events at these positions that are still stored, in order. */
export async function eventsAt(
  db: Queryable,
  positions: readonly bigint[],
): Promise<StoredEvent[]> {
  const { rows } = await db.query<EventRow>(
    `select position, key, event_id, trigger, traceparent, tracestate, value
     from events where position = any ($1) order by position`,
    [positions],
  );
  return rows.map(toStored);
}

/** Returns events that were stored in the period `[from, to)` and are above the position `after`, in order. */
export async function storedEvents(
  db: Queryable,
  o: { from: Date; to: Date; after: bigint; limit: number },
): Promise<StoredEvent[]> {
  const { rows } = await db.query<EventRow>(
    `select position, key, event_id, trigger, traceparent, tracestate, value
     from events
     where created_at >= $1 and created_at < $2 and position > $3
       and day between ($1::timestamptz at time zone 'utc')::date
                   and ($2::timestamptz at time zone 'utc')::date
     order by position limit $4`,
    [o.from, o.to, o.after, o.limit],
  );
  return rows.map(toStored);
}
