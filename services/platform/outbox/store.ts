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

/** A shard, and the position after which to read. */
export interface ShardCursor {
  readonly shard: number;
  readonly after: bigint;
}

/** What one look at a shard found. */
export interface ShardPage {
  readonly shard: number;
  /** In order of position. */
  readonly events: readonly WaitingEvent[];
  /** After which to read on; undefined when the end of the shard was reached. */
  readonly next: bigint | undefined;
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
  value: Buffer;
  found_at: bigint | null;
}

/** Reads no further than `limit` rows of each shard, whatever they hold; an event's body only if it is taken. */
const READ = {
  name: 'outbox-read',
  text: `select p.shard, p.shop_id, p.day, p.position, p.key, p.bytes, p.is_known,
                e.position as found_at, e.event_id, e.trigger, e.traceparent, e.value
           from (
             select o.shard, o.shop_id, o.day, o.position, o.key, o.bytes,
                    o.position = any ($3) or o.key = any ($4) as is_known,
                    sum(case when o.position = any ($3) or o.key = any ($4) then 0 else o.bytes end)
                      over (order by o.position) - o.bytes as bytes_before
               from unnest($1::smallint[], $2::bigint[]) as s (shard, after)
              cross join lateral (
                select * from outbox
                 where outbox.shard = s.shard and outbox.position > s.after
                 order by outbox.position limit $5
              ) o
           ) p
           left join lateral (
             select * from events
              where events.shop_id = p.shop_id and events.day = p.day and events.position = p.position
                and not p.is_known and p.bytes_before < $6
              limit 1
           ) e on true
          order by p.position`,
};

/**
 * What waits in the given shards beyond their cursors, without what is held already and without the
 * keys of which no more is wanted. At most `limit` rows of each shard are looked at, so that the
 * backlog of one key costs a look no more than any other's; at most about `maxBytes` are taken.
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
    ],
  });
  const byShard = Map.groupBy(rows, (row) => row.shard);
  return o.cursors.map(({ shard, after }) => {
    const all = byShard.get(shard) ?? [];
    // Rows beyond the bytes come without their body: they are read again.
    const cut = all.findIndex((row) => !row.is_known && row.found_at === null);
    const seen = cut === -1 ? all : all.slice(0, cut);
    const isEnd = cut === -1 && all.length < o.limit;
    const events = seen.filter((row) => !row.is_known).map(toWaiting);
    return { shard, events, next: isEnd ? undefined : (seen.at(-1)?.position ?? after) };
  });
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
