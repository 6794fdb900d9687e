import type { BusRecord } from '../bus/event-bus.ts';
import type { Queryable } from '../postgres.ts';

/** Which row of `outbox` and `events`. */
export interface Pointer {
  readonly shopId: bigint;
  /** YYYY-MM-DD, UTC. */
  readonly day: string;
  readonly position: bigint;
}

export interface StoredEvent extends Pointer {
  readonly record: BusRecord;
}

export interface WaitingEvent extends StoredEvent {
  readonly shard: number;
  readonly bytes: number;
}

interface Row {
  shop_id: bigint;
  day: string;
  position: bigint;
  key: string;
  event_id: string;
  trigger: string;
  traceparent: string;
  value: Buffer;
}

/** A shard, and how far a pass through it has come. */
export interface ShardCursor {
  readonly shard: number;
  /** The position after which to read. */
  readonly after: bigint;
  /** What was committed when the pass began: it finds nothing else. Undefined at its beginning. */
  readonly snapshot: string | undefined;
}

/** What one look at a shard found. */
export interface ShardPage {
  readonly shard: number;
  /** In order of position. */
  readonly events: readonly WaitingEvent[];
  /** Where to read on; undefined when the end of the shard was reached. */
  readonly next: ShardCursor | undefined;
  /** Rows committed since the pass began were left for the next one. */
  readonly isLeft: boolean;
}

export interface PageRequest {
  readonly cursors: readonly ShardCursor[];
  readonly exceptPositions: readonly bigint[];
  readonly exceptKeys: readonly string[];
  /** Rows looked at in each shard. */
  readonly limit: number;
  readonly maxBytes: number;
}

interface PageRow extends Row {
  shard: number;
  bytes: number;
  is_known: boolean;
  is_late: boolean;
  snapshot: string;
  value: Buffer;
  found_at: bigint | null;
}

/**
 * Reads no further than `limit` rows of each shard, whatever they hold; an event's body only if it is taken.
 * A row that its pass must not see is late; one whose transaction is still to come was restored from another server.
 */
const READ = {
  name: 'outbox-read',
  text: `select p.shard, p.shop_id, p.day, p.position, p.key, p.bytes, p.is_known, p.is_late, p.snapshot,
                e.position as found_at, e.event_id, e.trigger, e.traceparent, e.value
           from (
             select o.*, pg_current_snapshot()::text as snapshot,
                    sum(case when is_known or is_late then 0 else o.bytes end)
                      over (order by o.position) - o.bytes as bytes_before
               from unnest($1::smallint[], $2::bigint[], $7::pg_snapshot[]) as s (shard, after, seen)
              cross join lateral (
                select outbox.*, outbox.position = any ($3) or outbox.key = any ($4) as is_known,
                       coalesce(not pg_visible_in_snapshot(outbox.written_by, s.seen)
                         and outbox.written_by < pg_snapshot_xmax(pg_current_snapshot()), false) as is_late
                  from outbox
                 where outbox.shard = s.shard and outbox.position > s.after
                 order by outbox.position limit $5
              ) o
           ) p
           left join lateral (
             select * from events
              where events.shop_id = p.shop_id and events.day = p.day and events.position = p.position
                and not p.is_known and not p.is_late and p.bytes_before < $6
              limit 1
           ) e on true
          order by p.position`,
};

/**
 * What waits in the given shards beyond their cursors, without what is held already and without the
 * keys of which no more is wanted. The pages of a pass show the shard as it was when the pass began: a
 * row may commit behind the cursor, and the next of its key must not be found before it. At most
 * `limit` rows of each shard are looked at, so that the backlog of one key costs a look no more than
 * any other's; at most about `maxBytes` are taken.
 */
export async function waitingEvents(db: Queryable, o: PageRequest): Promise<ShardPage[]> {
  const { rows } = await db.query<PageRow>({
    ...READ,
    values: [
      o.cursors.map(({ shard }) => shard),
      o.cursors.map(({ after }) => after),
      o.exceptPositions,
      o.exceptKeys,
      o.limit,
      o.maxBytes,
      o.cursors.map(({ snapshot }) => snapshot ?? null),
    ],
  });
  const byShard = Map.groupBy(rows, (row) => row.shard);
  return o.cursors.map((cursor) => toPage(cursor, byShard.get(cursor.shard) ?? [], o.limit));
}

function toPage(cursor: ShardCursor, rows: readonly PageRow[], limit: number): ShardPage {
  const { shard, after } = cursor;
  const isPassed = (row: PageRow): boolean => row.is_known || row.is_late;
  // Rows beyond the bytes come without their body: they are read again.
  const cut = rows.findIndex((row) => !isPassed(row) && row.found_at === null);
  const seen = cut === -1 ? rows : rows.slice(0, cut);
  const events = seen.filter((row) => !isPassed(row)).map(toWaiting);
  const isLeft = seen.some((row) => row.is_late);
  const isEnd = cut === -1 && (rows.length < limit || rows.every((row) => row.is_late));
  if (isEnd) return { shard, events, next: undefined, isLeft };
  const snapshot = cursor.snapshot ?? rows[0]?.snapshot;
  return {
    shard,
    events,
    next: { shard, after: seen.at(-1)?.position ?? after, snapshot },
    isLeft,
  };
}

function toWaiting(row: PageRow): WaitingEvent {
  return { ...toStored(row), shard: row.shard, bytes: row.bytes };
}

function toStored(row: Row): StoredEvent {
  return {
    shopId: row.shop_id,
    day: row.day,
    position: row.position,
    record: {
      key: row.key,
      value: row.value,
      headers: {
        event_id: row.event_id,
        trigger: row.trigger,
        ...(row.traceparent === '' ? {} : { traceparent: row.traceparent }),
      },
    },
  };
}

/** Forgets pointers to events that the bus has. */
export async function deletePointers(db: Queryable, pointers: readonly Pointer[]): Promise<void> {
  await db.query({
    name: 'outbox-forget',
    text: `delete from outbox o
           using unnest($1::bigint[], $2::date[], $3::bigint[]) as done (shop_id, day, position)
           where o.shop_id = done.shop_id and o.day = done.day and o.position = done.position`,
    values: [
      pointers.map((pointer) => pointer.shopId),
      pointers.map((pointer) => pointer.day),
      pointers.map((pointer) => pointer.position),
    ],
  });
}

export interface Backlog {
  readonly depth: number;
  /** Of the oldest; 0 when nothing waits. */
  readonly ageSeconds: number;
}

export async function backlogOf(db: Queryable): Promise<Backlog> {
  const { rows } = await db.query<{ depth: bigint; age: number | null }>(
    `select count(*) as depth,
            extract(epoch from clock_timestamp() - min(created_at))::float8 as age
     from outbox`,
  );
  return { depth: Number(rows[0]?.depth ?? 0n), ageSeconds: Math.max(0, rows[0]?.age ?? 0) };
}

/** Events stored in `[from, to)` after a position, oldest first. */
export async function storedEvents(
  db: Queryable,
  o: { from: Date; to: Date; after: bigint; limit: number },
): Promise<StoredEvent[]> {
  const { rows } = await db.query<Row>(
    `select shop_id, day, position, key, event_id, trigger, traceparent, value
     from events
     where created_at >= $1 and created_at < $2 and position > $3
       and day between ($1::timestamptz at time zone 'utc')::date
                   and ($2::timestamptz at time zone 'utc')::date
     order by position limit $4`,
    [o.from, o.to, o.after, o.limit],
  );
  return rows.map(toStored);
}
