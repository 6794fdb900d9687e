import { onlyRow } from '../only-row.ts';
import type { Queryable } from '../postgres.ts';
import { param, rowsOf, sql, unnamed } from '../sql.ts';

/** A listener, and the service whose events it handles. */
export interface SweepName {
  /** The consumer group of the listener. */
  readonly group: string;
  /** The name of the service that publishes. */
  readonly source: string;
}

/** An event that was published. */
export interface SweptEvent {
  readonly shopId: bigint;
  readonly eventId: string;
  /** UTC day under which a listener stores that it has handled the event, YYYY-MM-DD. */
  readonly day: string;
  readonly position: bigint;
}

/**
 * Starts a sweep, unless some process started one less than `everyMs` ago. Returns the cursor from which it continues;
 * undefined when it is too early. A stored time in the far future is ignored, because it is from before the clock of
 * the database was set back.
 */
export async function beginSweep(
  db: Queryable,
  o: SweepName & { readonly everyMs: number },
): Promise<string | undefined> {
  const { rows } = await db.query<{ cursor: string }>(
    `insert into event_sweeps as s (consumer, source, next_at)
     values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
     on conflict (consumer, source) do update set next_at = excluded.next_at
      where s.next_at <= clock_timestamp() or s.next_at > excluded.next_at
     returning cursor`,
    [o.group, o.source, o.everyMs],
  );
  return rows[0]?.cursor;
}

const eventRows = rowsOf<SweptEvent>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  event_id: ['uuid', ({ eventId }) => eventId],
  day: ['date', ({ day }) => day],
  position: ['bigint', ({ position }) => position],
});

/** Returns those events that the listener has neither handled nor stored as poison. */
export async function unhandledOf<E extends SweptEvent>(
  db: Queryable,
  group: string,
  events: readonly E[],
): Promise<E[]> {
  if (events.length === 0) return [];
  // The limit makes PostgreSQL look up each event by the primary key. A plain join might read all events handled in
  // weeks.
  const { rows } = await db.query<{ n: bigint }>(
    unnamed(sql`
     select n - 1 as n
       from ${eventRows('u', events, 'n')}
      where (select true from consumed_events c
              where c.shop_id = u.shop_id and c.event_id = u.event_id and c.consumer = ${group} and c.day = u.day
              limit 1) is null
      order by n`),
  );
  return rows.flatMap(({ n }) => events[Number(n)] ?? []);
}

/** Stores events that the listener did not get, and the cursor up to which events were compared. */
export async function noteMissing(
  db: Queryable,
  o: SweepName & { readonly missing: readonly SweptEvent[]; readonly cursor: string },
): Promise<void> {
  const [group, source] = [param(o.group), param(o.source)];
  await db.query(
    unnamed(sql`
     with noted as (
       insert into missing_events (shop_id, event_id, day, position, consumer, source)
       select u.*, ${group}::text, ${source}::text from ${eventRows('u', o.missing)}
       on conflict (consumer, source, position) do nothing
     )
     update event_sweeps set cursor = ${o.cursor} where consumer = ${group} and source = ${source}`),
  );
}

/** Returns the number of missing events that the listener has not handled yet. Counts up to `limit`. */
export async function countMissing(
  db: Queryable,
  o: SweepName & { readonly tries: number; readonly limit: number },
): Promise<number> {
  const result = await db.query<{ count: bigint }>(
    `select count(*) as count from (
       select from missing_events where consumer = $1 and source = $2 and published_again < $3 limit $4
     ) counted`,
    [o.group, o.source, o.tries, o.limit],
  );
  return Number(onlyRow(result).count);
}

/** Deletes missing events that the listener has handled in the meantime, and those found more than `keptDays` ago. */
export async function deleteHandled(
  db: Queryable,
  o: SweepName & { readonly keptDays: number },
): Promise<void> {
  await db.query(
    `delete from missing_events m
      where m.consumer = $1 and m.source = $2
        and (m.found_at < now() - $3 * interval '1 day' or (
          select true from consumed_events c
           where c.shop_id = m.shop_id and c.event_id = m.event_id and c.consumer = $1 and c.day = m.day
           limit 1))`,
    [o.group, o.source, o.keptDays],
  );
}

/**
 * Returns the positions of missing events that must be published again now. Only those above `after`, in ascending
 * order.
 */
export async function duePositions(
  db: Queryable,
  o: SweepName & { readonly tries: number; readonly after: bigint; readonly limit: number },
): Promise<bigint[]> {
  const { rows } = await db.query<{ position: bigint }>(
    `select position from missing_events
      where consumer = $1 and source = $2 and next_at <= clock_timestamp() and published_again < $3
        and position > $4
      order by position limit $5`,
    [o.group, o.source, o.tries, o.after, o.limit],
  );
  return rows.map(({ position }) => position);
}

/**
 * Stores that these events were published again. `pausesMs` has one pause for each time that an event is published
 * again.
 */
export async function notePublished(
  db: Queryable,
  o: SweepName & { readonly positions: readonly bigint[]; readonly pausesMs: readonly number[] },
): Promise<void> {
  await db.query(
    `update missing_events
        set published_again = published_again + 1,
            next_at = clock_timestamp() + ($4::float8[])[published_again + 1] * interval '1 millisecond'
      where consumer = $1 and source = $2 and position = any ($3)`,
    [o.group, o.source, o.positions, o.pausesMs],
  );
}

/** Returns how long the oldest missing event has been missing; 0 when there is none. Seconds. */
export async function oldestMissing(db: Queryable, { group, source }: SweepName): Promise<number> {
  const result = await db.query<{ age: number | null }>(
    `select extract(epoch from clock_timestamp() - min(found_at))::float8 as age
       from missing_events where consumer = $1 and source = $2`,
    [group, source],
  );
  return Math.max(0, onlyRow(result).age ?? 0);
}
