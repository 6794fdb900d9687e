import { toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { delivers } from '../../contract/topics/topics.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { rowsOf, sql, unnamed } from '../../platform/sql.ts';
import { shopTriggerRows } from '../delivery/queue/targets.ts';

/** Reads a return as it was at one revision. Undefined when the returns service no longer has this revision. */
export type ReadSnapshot = (o: {
  shopId: bigint;
  returnId: bigint;
  revision: bigint;
}) => Promise<Return | undefined>;

/** Maximum number of bytes of snapshots in one part. The last snapshot of a part may exceed it. */
const MAX_PART_BYTES = 8 * 1024 * 1024;
/**
 * Maximum number of bytes of snapshots that are read before the transaction of a batch. The last snapshots may exceed
 * it.
 */
const MAX_READ_AHEAD_BYTES = 16 * 1024 * 1024;
const CONCURRENT_READS = 4;

/**
 * Adds the snapshots that were too large for their events. Called before the transaction, so that no transaction waits
 * for the returns service. Skips events that no subscription needs, and events that were already handled. Reads up to
 * about 16 MiB. {@link withSnapshots} reads the others.
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
  const needed = await neededAmong(db, await unhandledAmong(db, omitted));
  const left = omitted.filter((event) => needed.has(event.eventId));
  const found = new Map<string, Event>();
  let bytes = 0;
  while (left.length > 0 && bytes < MAX_READ_AHEAD_BYTES) {
    const snapshots = await Promise.all(
      left.splice(0, CONCURRENT_READS).map((event) => addSnapshot(event, read)),
    );
    for (const event of snapshots) {
      if (!event?.snapshot) continue;
      found.set(event.eventId, event);
      bytes += toBinary(ReturnSchema, event.snapshot).length;
    }
  }
  return events.map((event) => found.get(event.eventId) ?? event);
}

/** Returns the event with its snapshot. Undefined when the returns service no longer has the snapshot. */
export async function addSnapshot(event: Event, read: ReadSnapshot): Promise<Event | undefined> {
  const snapshot = await read(event);
  return snapshot && { ...event, snapshot, snapshotOmitted: false };
}

const eventRows = rowsOf<Event>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  event_id: ['uuid', ({ eventId }) => eventId],
});

/** Returns the events that this service has not handled yet. It sees only committed transactions. */
async function unhandledAmong(db: Queryable, events: readonly Event[]): Promise<Event[]> {
  const { rows } = await db.query<{ eventId: string }>(
    unnamed(sql`select c.event_id as "eventId" from consumed_events c
                  join ${eventRows('input', events)}
                    on input.shop_id = c.shop_id and input.event_id = c.event_id
                 where c.consumer = 'webhooks'`),
  );
  const handled = new Set(rows.map((row) => row.eventId));
  return events.filter((event) => !handled.has(event.eventId));
}

/**
 * Returns the events in order and in parts, with the snapshots that were too large for them. Reads only snapshots that
 * a subscription needs. A part ends when it has 8 MiB of snapshots.
 *
 * When a snapshot no longer exists, the event is returned without a snapshot. If a subscription needs the snapshot, the
 * event becomes a poison record.
 *
 * @throws the error of the read. After an outage the bus delivers the batch again; every other error makes the event
 *   poison.
 */
export async function* withSnapshots(
  tx: Queryable,
  events: readonly Event[],
  read: ReadSnapshot,
): AsyncGenerator<readonly Event[]> {
  const needed = await neededAmong(
    tx,
    events.filter((event) => event.snapshotOmitted),
  );
  let part: Event[] = [];
  let usedBytes = 0;
  for (const event of events) {
    const whole = needed.has(event.eventId) ? await addSnapshot(event, read) : undefined;
    if (whole?.snapshot) usedBytes += toBinary(ReturnSchema, whole.snapshot).length;
    part.push(whole ?? event);
    if (usedBytes < MAX_PART_BYTES) continue;
    yield part;
    part = [];
    usedBytes = 0;
  }
  if (part.length > 0) yield part;
}

/**
 * Returns the ids of those of these events that at least one active subscription gets. The others need no snapshot.
 * Takes no lock, because a call to the returns service follows. When a subscription is created during that call, an
 * event for it has no snapshot, and the batch is tried again.
 */
async function neededAmong(tx: Queryable, events: readonly Event[]): Promise<Set<string>> {
  if (events.length === 0) return new Set();
  const { rows } = await tx.query<{ shopId: bigint; topic: string; trigger: string }>(
    unnamed(sql`select distinct s.shop_id as "shopId", s.topic, s.trigger
                  from subscription_queues s
                  join ${shopTriggerRows('input', events)}
                    on input.shop_id = s.shop_id and input.trigger = s.trigger
                 where s.is_open`),
  );
  const isNeeded = (event: Event): boolean =>
    rows.some(
      ({ shopId, topic, trigger }) =>
        shopId === event.shopId && trigger === event.trigger && delivers(topic, trigger),
    );
  return new Set(events.filter(isNeeded).map((event) => event.eventId));
}

/** Returns undefined in place of a NOT_FOUND. Other errors propagate. */
export async function unlessGone<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
    throw error;
  }
}
