import type { Client } from '@connectrpc/connect';
import type pg from 'pg';
import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import { type EventBus, eventsTopic } from '../bus/event-bus.ts';
import { rememberDays } from '../consumer/consumer.ts';
import { onlyRow } from '../postgres/only-row.ts';
import type { Queryable } from '../postgres/postgres.ts';
import { sharedWithTimeout } from '../postgres/shared-with-timeout.ts';
import { param, rowsOf, sql, unnamed } from '../postgres/sql.ts';
import type { ServiceRuntime } from '../process/service.ts';
import { startLoop, type Worker } from '../process/worker.ts';
import { createServiceClient } from '../rpc/client.ts';
import type { Logger } from '../telemetry/log.ts';
import { isUnavailable } from '../values/errors.ts';
import { MAX_AGAIN } from './routes.ts';

const EVERY_MS = 60_000;
/**
 * Minimum time between two sweeps, over all processes. It is below `EVERY_MS`, so that a process does not skip its own
 * next sweep. Milliseconds.
 */
const MIN_INTERVAL_MS = 50_000;
/**
 * The pauses after each time that an event is published again: five times within an hour and a half. The last pause ends
 * with nothing, because there is no sixth time. Milliseconds.
 */
const PAUSES_MS = [1, 4, 16, 64, 64].map((minutes) => minutes * 60_000);

/**
 * Starts the sweep. Once a minute, one process of the service compares the events that another service has published
 * with those that a listener of this service has handled. Kafka has lost the events that are missing, so they are
 * published again.
 *
 * @param o.group the listener, as in `consumeEvents`.
 * @param o.source the service that publishes.
 * @param o.target gRPC name of the service that publishes.
 */
export function startSweep(
  runtime: Pick<
    ServiceRuntime,
    'backgroundPool' | 'bus' | 'identity' | 'logger' | 'telemetry' | 'retentionDays'
  >,
  o: { readonly group: string; readonly source: string; readonly target: string },
): Worker {
  const { backgroundPool: pool, bus, identity, logger, telemetry } = runtime;
  const channel = createServiceClient(EventsService, { target: o.target, identity, telemetry });
  const attributes = { group: o.group };
  const republished = telemetry.meter.createCounter('events_republished_total', {
    description: 'Events that were published again because the bus had lost them.',
  });
  const age = telemetry.meter.createObservableGauge('events_missing_oldest_age_seconds', {
    description:
      'Time since the sweep found the oldest event that the bus lost and no listener has handled yet.',
    unit: 's',
  });
  const readAge = sharedWithTimeout(() => oldestMissing(pool, o));
  age.addCallback(async (result) => {
    const seconds = await readAge();
    if (seconds !== undefined) result.observe(seconds, attributes);
  });

  const loop = startLoop({
    name: 'sweep of events',
    idleMs: EVERY_MS,
    logger,
    step: async (signal) => {
      try {
        await sweep(
          {
            group: o.group,
            source: o.source,
            pool,
            bus,
            logger,
            events: channel.client,
            onPublished: (count) => republished.add(count, attributes),
            everyMs: MIN_INTERVAL_MS,
            pausesMs: PAUSES_MS,
            keptDays: rememberDays(runtime.retentionDays),
          },
          signal,
        );
      } catch (error) {
        // The publisher is unavailable. Other code logs this. The next sweep starts soon.
        if (!isUnavailable(error)) throw error;
      }
      return 'idle';
    },
  });
  return {
    async stop() {
      await loop.stop();
      channel.close();
    },
  };
}

export interface SweepOptions extends SweepName {
  readonly pool: pg.Pool;
  readonly bus: Pick<EventBus, 'hasCaughtUp'>;
  /** Client of the service that publishes. */
  readonly events: Pick<Client<typeof EventsService>, 'listPublished' | 'publishAgain'>;
  readonly logger: Logger;
  readonly onPublished: (count: number) => void;
  readonly everyMs: number;
  /**
   * The pause after each time that an event is published again. When all pauses are used, the event is not published
   * again. Milliseconds.
   */
  readonly pausesMs: readonly number[];
  /** How long missing events are stored that never arrive. Days. */
  readonly keptDays: number;
}

/** Maximum number of pages in one sweep. A page has 1,000 events. */
const MAX_PAGES = 100;
/** Maximum number of calls in one sweep that publish events again. Together they publish 20,000 events. */
const MAX_CALLS = 100;
/** Time limit of a call that publishes events again. Milliseconds. */
const PUBLISH_MS = 30_000;
/** While this many missing events are not handled, the sweep does not search for more. */
const MAX_MISSING = 100_000;

/**
 * Finds published events that the listener did not get, and has them published again. Does nothing when a process began
 * a sweep less than a minute ago.
 *
 * An event is missing when the listener has handled all records of the bus, but not this event. While the listener has
 * a backlog, the sweep does not search, so that it never publishes the backlog twice. Rejects when the publisher, the
 * bus or the database is unavailable. Missing events that were found before that are stored.
 */
export async function sweep(o: SweepOptions, signal: AbortSignal): Promise<void> {
  const cursor = await beginSweep(o.pool, o);
  if (cursor === undefined) return;
  await findMissing(o, cursor, signal);
  await publishMissing(o, signal);
}

async function findMissing(o: SweepOptions, begin: string, signal: AbortSignal): Promise<void> {
  let cursor = begin;
  for (let page = 0; page < MAX_PAGES && !signal.aborted; page += 1) {
    const { events, nextCursor, more } = await o.events.listPublished({ cursor }, { signal });
    if (events.length === 0) return;
    const missing = await unhandledOf(o.pool, o.group, events);
    if (missing.length > 0) {
      const open = { ...o, tries: o.pausesMs.length, limit: MAX_MISSING };
      if ((await countMissing(o.pool, open)) === MAX_MISSING) return;
      // The listener has a backlog, so the next sweep begins at the same cursor. If it has none, some of these events
      // may have been in flight; `publishMissing` deletes these first.
      if (!(await hasCaughtUp(o, signal))) return;
    }
    await noteMissing(o.pool, { ...o, missing, cursor: nextCursor });
    if (!more) return;
    cursor = nextCursor;
  }
}

async function publishMissing(o: SweepOptions, signal: AbortSignal): Promise<void> {
  const tries = o.pausesMs.length;
  await deleteHandled(o.pool, o);
  if ((await duePositions(o.pool, { ...o, tries, after: 0n, limit: 1 })).length === 0) return;
  // Events that an earlier sweep published again may still be in a backlog.
  if (!(await hasCaughtUp(o, signal))) return;
  await deleteHandled(o.pool, o);
  let published = 0;
  let after = 0n;
  for (let call = 0; call < MAX_CALLS && !signal.aborted; call += 1) {
    const positions = await duePositions(o.pool, { ...o, tries, after, limit: MAX_AGAIN });
    const last = positions.at(-1);
    if (last === undefined) break;
    await o.events.publishAgain({ positions }, { signal, timeoutMs: PUBLISH_MS });
    await notePublished(o.pool, { ...o, positions });
    after = last;
    published += positions.length;
    o.onPublished(positions.length);
  }
  const { group, source } = o;
  if (published > 0) {
    o.logger.warn({ group, source, events: published }, 'lost events published again');
  }
}

function hasCaughtUp(o: SweepOptions, signal: AbortSignal): Promise<boolean> {
  return o.bus.hasCaughtUp(o.group, eventsTopic(o.source), signal);
}

/** A listener, and the service whose events it handles. */
interface SweepName {
  /** The consumer group of the listener. */
  readonly group: string;
  /** The name of the service that publishes. */
  readonly source: string;
}

/** An event that was published. */
interface SweptEvent {
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
async function beginSweep(
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
async function unhandledOf<E extends SweptEvent>(
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
async function noteMissing(
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
async function countMissing(
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
async function deleteHandled(
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
async function duePositions(
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
async function notePublished(
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
