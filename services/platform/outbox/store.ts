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

/** A page must not fill the memory when every event carries a large snapshot. */
const MAX_PAGE_BYTES = 16 * 1024 * 1024;

/**
 * What waits in the given shards, in order, without the keys that are on their way already.
 * Each shard gives at most `limit` rows; at most about 16 MiB in all.
 */
export async function waitingEvents(
  db: Queryable,
  o: { shards: readonly number[]; exceptKeys: readonly string[]; limit: number },
): Promise<StoredEvent[]> {
  const { rows } = await db.query<Row>(
    `select e.shop_id, e.day, e.position, e.key, e.event_id, e.trigger, e.traceparent, e.value
     from (
       select w.shop_id, w.day, w.position,
              sum(w.bytes) over (order by w.position) - w.bytes as bytes_before
       from unnest($1::smallint[]) as s (shard)
       cross join lateral (
         select o.shop_id, o.day, o.position, o.bytes from outbox o
         where o.shard = s.shard and not (o.key = any ($2::text[]))
         order by o.position limit $3
       ) w
     ) p
     join events e on e.shop_id = p.shop_id and e.day = p.day and e.position = p.position
     where p.bytes_before < $4
     order by e.position`,
    [o.shards, o.exceptKeys, o.limit, MAX_PAGE_BYTES],
  );
  return rows.map(toStored);
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
  await db.query(
    `delete from outbox o
     using unnest($1::bigint[], $2::date[], $3::bigint[]) as done (shop_id, day, position)
     where o.shop_id = done.shop_id and o.day = done.day and o.position = done.position`,
    [
      pointers.map((pointer) => pointer.shopId),
      pointers.map((pointer) => pointer.day),
      pointers.map((pointer) => pointer.position),
    ],
  );
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
