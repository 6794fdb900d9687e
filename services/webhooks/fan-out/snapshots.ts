import { toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { delivers } from '../../contract/topics/topics.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { rowsOf, sql, unnamed } from '../../platform/postgres/sql.ts';
import { shopTriggerRows } from '../delivery/queue/targets.ts';

/** Reads a return as it was at one revision. Undefined when the returns service no longer has this revision. */
export type ReadSnapshot = (o: {
  shopId: bigint;
  returnId: bigint;
  revision: bigint;
}) => Promise<Return | undefined>;

/** A part ends at this size of its snapshots that were read, as messages. The last one may exceed it. Bytes. */
const MAX_PART_BYTES = 8 * 1024 * 1024;

/**
 * Returns a function that cuts events into parts, in their order, and adds the snapshots that were too large for their
 * events. It reads only snapshots that a subscription needs, and none of events that were already handled. A part ends
 * when it has 8 MiB of such snapshots.
 *
 * Until its deliveries are committed, a snapshot of 24 MiB takes several times its size in memory. So all calls of the
 * function together have at most one part with such snapshots. The next one is read when the caller has handled it.
 *
 * When a snapshot no longer exists, its event is returned without it. If a subscription needs the snapshot, the event
 * becomes a poison record.
 *
 * The function throws the error of a read. After an outage the bus delivers the events again; every other error makes
 * the event poison.
 */
export function inPartsWithSnapshots(
  db: Queryable,
  read: ReadSnapshot,
): (events: readonly Event[]) => AsyncGenerator<readonly Event[]> {
  const takeTurn = createTurns();
  return async function* (events) {
    const omitted = events.filter((event) => event.snapshotOmitted);
    const needed = await neededAmong(db, await unhandledAmong(db, omitted));
    if (needed.size === 0) {
      yield events;
      return;
    }
    let left = events;
    while (left.length > 0) {
      const endTurn = await takeTurn();
      try {
        const part = await nextPart(left, needed, read);
        left = left.slice(part.length);
        yield part;
      } finally {
        endTurn();
      }
    }
  };
}

/**
 * Returns the first events, with the snapshots that they need. Reads them one after the other, because the size of a
 * snapshot is unknown before it is read.
 */
async function nextPart(
  events: readonly Event[],
  needed: ReadonlySet<string>,
  read: ReadSnapshot,
): Promise<Event[]> {
  const part: Event[] = [];
  let bytes = 0;
  for (const event of events) {
    const whole = needed.has(event.eventId) ? await addSnapshot(event, read) : undefined;
    part.push(whole ?? event);
    if (whole?.snapshot) bytes += toBinary(ReturnSchema, whole.snapshot).length;
    if (bytes >= MAX_PART_BYTES) break;
  }
  return part;
}

/**
 * Returns a function that waits until its earlier callers have ended their turns, and returns a function that ends the
 * turn. The wait has no limit of its own, because the reads and statements of a turn have deadlines.
 */
function createTurns(): () => Promise<() => void> {
  let last: Promise<void> = Promise.resolve();
  return async () => {
    const before = last;
    const { promise, resolve } = Promise.withResolvers<void>();
    last = promise;
    await before;
    return resolve;
  };
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
  if (events.length === 0) return [];
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
 * Returns the ids of those of these events that at least one active subscription gets. The others need no snapshot.
 * Takes no lock, because a call to the returns service follows. When a subscription is created during that call, an
 * event for it has no snapshot, and the batch is tried again.
 */
async function neededAmong(db: Queryable, events: readonly Event[]): Promise<Set<string>> {
  if (events.length === 0) return new Set();
  const { rows } = await db.query<{ shopId: bigint; topic: string; trigger: string }>(
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
