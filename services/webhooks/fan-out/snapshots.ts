import { toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { delivers } from '../../contract/views/payload.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { rowsOf, sql, unnamed } from '../../platform/sql.ts';
import { wantedRows } from '../delivery/queue/targets.ts';

/** Reads a return as it was at a revision; undefined when returns no longer has it. */
export type ReadSnapshot = (o: {
  shopId: bigint;
  returnId: bigint;
  revision: bigint;
}) => Promise<Return | undefined>;

/** Soft limit of snapshot bytes in memory. The last snapshot may exceed it. */
const MAX_HELD_BYTES = 8 * 1024 * 1024;
/** The same limit for a batch, before its transaction. */
const MAX_READ_AHEAD_BYTES = 16 * 1024 * 1024;
const CONCURRENT_READS = 4;

/**
 * Adds the snapshots that were too large for their events, before the transaction, so that no transaction waits for
 * returns. Reads them for events that some subscription wants and that were not handled yet, up to about 16 MiB.
 * {@link withSnapshots} reads the rest.
 *
 * @throws the error of the read.
 */
export async function readAhead(
  db: Queryable,
  events: readonly Event[],
  read: ReadSnapshot,
): Promise<readonly Event[]> {
  const omitted = events.filter((event) => event.snapshotOmitted);
  if (omitted.length === 0) return events;
  const wanted = await wantedAmong(db, await unhandledAmong(db, omitted));
  const left = omitted.filter((event) => wanted.has(event.eventId));
  const found = new Map<string, Event>();
  let bytes = 0;
  while (left.length > 0 && bytes < MAX_READ_AHEAD_BYTES) {
    const snapshots = await Promise.all(
      left.splice(0, CONCURRENT_READS).map((event) => readBack(event, read)),
    );
    for (const event of snapshots) {
      if (!event?.snapshot) continue;
      found.set(event.eventId, event);
      bytes += toBinary(ReturnSchema, event.snapshot).length;
    }
  }
  return events.map((event) => found.get(event.eventId) ?? event);
}

/** The event with the snapshot that was left out of it; undefined when returns no longer has it. */
export async function readBack(event: Event, read: ReadSnapshot): Promise<Event | undefined> {
  const snapshot = await read(event);
  return snapshot && { ...event, snapshot, snapshotOmitted: false };
}

const eventRows = rowsOf<Event>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  event_id: ['uuid', ({ eventId }) => eventId],
});

/** The events that this consumer has not handled, as far as committed. */
async function unhandledAmong(db: Queryable, events: readonly Event[]): Promise<Event[]> {
  const { rows } = await db.query<{ eventId: string }>(
    unnamed(sql`select c.event_id as "eventId" from consumed_events c
                  join ${eventRows('g', events)}
                    on g.shop_id = c.shop_id and g.event_id = c.event_id
                 where c.consumer = 'webhooks'`),
  );
  const handled = new Set(rows.map((row) => row.eventId));
  return events.filter((event) => !handled.has(event.eventId));
}

/**
 * Returns the events in order, in parts, with the snapshots that were too large for them. Reads only snapshots that
 * some subscription wants. A part ends when it holds 8 MiB of snapshots.
 *
 * A snapshot that no longer exists stays out. If a subscription wants it, the consumer stores the event as poison.
 *
 * @throws the error of the read. After an outage the bus passes the batch again; any other error makes the event
 *   poison.
 */
export async function* withSnapshots(
  tx: Queryable,
  events: readonly Event[],
  read: ReadSnapshot,
): AsyncGenerator<readonly Event[]> {
  const wanted = await wantedAmong(
    tx,
    events.filter((event) => event.snapshotOmitted),
  );
  let part: Event[] = [];
  let heldBytes = 0;
  for (const event of events) {
    const whole = wanted.has(event.eventId) ? await readBack(event, read) : undefined;
    if (whole?.snapshot) heldBytes += toBinary(ReturnSchema, whole.snapshot).length;
    part.push(whole ?? event);
    if (heldBytes < MAX_HELD_BYTES) continue;
    yield part;
    part = [];
    heldBytes = 0;
  }
  if (part.length > 0) yield part;
}

/**
 * The ids of the events that an active subscription wants. Takes no lock, because a call to returns follows. A
 * subscription that is created in between finds no snapshot, and the batch is tried again.
 */
async function wantedAmong(tx: Queryable, events: readonly Event[]): Promise<Set<string>> {
  if (events.length === 0) return new Set();
  const { rows } = await tx.query<{ shopId: bigint; topic: string; trigger: string }>(
    unnamed(sql`select distinct s.shop_id as "shopId", s.topic, s.trigger
                  from subscription_queues s
                  join ${wantedRows('given', events)}
                    on given.shop_id = s.shop_id and given.trigger = s.trigger
                 where s.is_open`),
  );
  const isWanted = (event: Event): boolean =>
    rows.some(
      ({ shopId, topic, trigger }) =>
        shopId === event.shopId && trigger === event.trigger && delivers(topic, trigger),
    );
  return new Set(events.filter(isWanted).map((event) => event.eventId));
}

/** Turns NOT_FOUND into undefined. Other errors propagate. */
export async function unlessGone<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
    throw error;
  }
}
