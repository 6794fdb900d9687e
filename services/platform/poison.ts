import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import type { Event } from '../../proto/gen/rms/events/v1/events_pb.ts';
import type { EventBus, ReceivedRecord } from './bus/event-bus.ts';
import { parseEvent } from './outbox/parse.ts';
import type { Queryable } from './postgres.ts';

/** Puts a record aside that could not be handled, once, with the reason for people. */
export async function parkRecord(
  tx: Queryable,
  o: { consumer: string; record: ReceivedRecord; error: unknown; attempts: number },
): Promise<void> {
  const { record } = o;
  await tx.query(
    `insert into poison_records (consumer, topic, position, key, value, headers, reason, attempts)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict on constraint poison_records_once do nothing`,
    [
      o.consumer,
      record.topic,
      record.position,
      storable(record.key),
      record.value,
      storable(JSON.stringify(record.headers)),
      storable(reasonOf(o.error)),
      o.attempts,
    ],
  );
}

/** Anybody may write to a topic, and PostgreSQL takes no NUL: neither plain nor as JSON writes it. */
function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD').replaceAll('\\u0000', '\\ufffd');
}

function reasonOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).slice(0, 1_000);
}

export interface PoisonReplay {
  readonly pool: pg.Pool;
  readonly bus: EventBus;
  readonly consumer: string;
}

/** Records read at once: each may be as large as the bus allows. */
const BATCH = 20;

/**
 * Publishes parked records again, oldest first, to be tried again by their listener; other groups
 * drop them as known. One that fails again is parked again. May be cut off anywhere and run again,
 * or run twice at once: no record is lost, and none has its effect twice. Returns how many were
 * published.
 */
export async function replayPoison(o: PoisonReplay): Promise<number> {
  const upTo = await newestParked(o);
  let published = 0;
  let after = 0n;
  for (;;) {
    const records = await parkedRecords(o, { after, upTo });
    for (const record of records) {
      await release(o, record);
      const { topic, key, value, headers } = record;
      await o.bus.publish(topic, [{ key, value, headers }]);
      await o.pool.query('delete from poison_records where id = $1', [record.id]);
      published += 1;
      after = record.id;
    }
    if (records.length < BATCH) return published;
  }
}

interface ParkedRow {
  id: bigint;
  topic: string;
  key: string;
  value: Buffer;
  headers: Record<string, string>;
}

/** What is parked while the replay runs is for the next one. */
async function newestParked(o: PoisonReplay): Promise<bigint> {
  const { rows } = await o.pool.query<{ id: bigint | null }>(
    'select max(id) as id from poison_records where consumer = $1',
    [o.consumer],
  );
  return rows[0]?.id ?? 0n;
}

async function parkedRecords(
  o: PoisonReplay,
  range: { readonly after: bigint; readonly upTo: bigint },
): Promise<ParkedRow[]> {
  const { rows } = await o.pool.query<ParkedRow>(
    `select id, topic, key, value, headers from poison_records
     where consumer = $1 and id > $2 and id <= $3 order by id limit $4`,
    [o.consumer, range.after, range.upTo, BATCH],
  );
  return rows;
}

/**
 * Parking marked the event as handled; without that mark it is tried again. The mark is forgotten
 * once for each parked record: one that is there after that says that the event was handled, or
 * set aside again, and stays.
 */
async function release(o: PoisonReplay, { id, value }: ParkedRow): Promise<void> {
  const event = readEvent(value);
  if (!event) return;
  await o.pool.query(
    `with released as (
       update poison_records set released_at = now() where id = $4 and released_at is null returning id
     )
     delete from consumed_events
     where shop_id = $1 and event_id = $2 and consumer = $3 and day = $5::date
       and exists (select from released)`,
    [event.shopId, event.eventId, o.consumer, id, dayOfEvent(event)],
  );
}

/** The event of a record, or undefined when it holds none. */
export function readEvent(value: Uint8Array): Event | undefined {
  try {
    return parseEvent(value);
  } catch {
    return undefined;
  }
}

/**
 * The UTC day by which a handled event is remembered, YYYY-MM-DD: that of its own time, so that it
 * is the same however often and late the event comes. One without a time, or with an impossible one,
 * has the first of 1970.
 */
export function dayOfEvent({ occurredAt }: Event): string {
  const time = occurredAt ? timestampDate(occurredAt) : new Date(0);
  const year = time.getUTCFullYear();
  const isDay = year >= 1 && year <= 9_999;
  return (isDay ? time : new Date(0)).toISOString().slice(0, 10);
}
