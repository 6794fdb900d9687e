import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { EventBus, ReceivedRecord } from '../bus/event-bus.ts';
import { parseEvent } from '../outbox/parse.ts';
import { onlyRow } from '../postgres/only-row.ts';
import type { Queryable } from '../postgres/postgres.ts';

/** Stores a record that could not be handled, with the reason for operators. A record is stored once. */
export async function storePoison(
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

/** Replaces NUL as a character and as a JSON escape, because PostgreSQL can store neither. */
function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD').replaceAll('\\u0000', '\\ufffd');
}

function reasonOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).slice(0, 1_000);
}

interface PoisonReplay {
  readonly pool: pg.Pool;
  readonly bus: EventBus;
  readonly consumer: string;
}

/** Maximum number of records in one read, because each may be as large as the bus allows. */
const BATCH = 20;

/**
 * Publishes poison records again, oldest first, so that their listener tries them again. Other listeners skip them,
 * because they have handled them. A record that fails again is stored again.
 *
 * The replay may be interrupted and repeated, and two replays may run at the same time: no record is lost, and no event
 * has its effect twice. Returns the number of published records.
 */
export async function replayPoison(o: PoisonReplay): Promise<number> {
  const upTo = await newestPoison(o);
  let published = 0;
  let after = 0n;
  for (;;) {
    const records = await poisonRecords(o, { after, upTo });
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

interface PoisonRow {
  id: bigint;
  topic: string;
  key: string;
  value: Buffer;
  headers: Record<string, string>;
}

/** Returns the id of the newest poison record. Records that become poison later are left for the next replay. */
async function newestPoison(o: PoisonReplay): Promise<bigint> {
  const result = await o.pool.query<{ id: bigint | null }>(
    'select max(id) as id from poison_records where consumer = $1',
    [o.consumer],
  );
  return onlyRow(result).id ?? 0n;
}

async function poisonRecords(
  o: PoisonReplay,
  range: { readonly after: bigint; readonly upTo: bigint },
): Promise<PoisonRow[]> {
  const { rows } = await o.pool.query<PoisonRow>(
    `select id, topic, key, value, headers from poison_records
     where consumer = $1 and id > $2 and id <= $3 order by id limit $4`,
    [o.consumer, range.after, range.upTo, BATCH],
  );
  return rows;
}

/**
 * Deletes the note that the event of a poison record was handled, so that the listener tries the event again. Deletes
 * it only once for each poison record. A later note means that the event was handled since then, or became poison
 * again.
 */
async function release(o: PoisonReplay, { id, value }: PoisonRow): Promise<void> {
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

/** Returns the event of a record; undefined when the record is not a valid event. */
export function readEvent(value: Uint8Array): Event | undefined {
  try {
    return parseEvent(value);
  } catch {
    return undefined;
  }
}

/**
 * Returns the UTC day under which a listener stores a handled event, YYYY-MM-DD. This is the day on which the event
 * occurred, so it is the same for every duplicate. For an event without a valid time it is the first day of 1970.
 */
export function dayOfEvent({ occurredAt }: Event): string {
  const time = occurredAt ? timestampDate(occurredAt) : new Date(0);
  const year = time.getUTCFullYear();
  const isDay = year >= 1 && year <= 9_999;
  return (isDay ? time : new Date(0)).toISOString().slice(0, 10);
}

/** Pauses before the second and the third try of a record. Milliseconds. */
const PAUSES_MS: readonly number[] = [2_000, 8_000];
/** Number of keys that fail without a success in between, from which the cause counts as an outage. */
const OUTAGE_KEYS = 5;
/**
 * Maximum number of records and keys in memory. A record that is removed from memory starts again with its first try.
 */
const MAX_REMEMBERED = 10_000;

/**
 * What follows from a failure: another try after a pause (milliseconds), `poison` after the last try, or `outage` when
 * all records fail. With `outage` the failure does not count as a try.
 */
type Consequence = { readonly pauseMs: number } | 'poison' | 'outage';

/**
 * Counts the failures of each record, and the keys that failed since the last success. The counts are only in memory.
 */
export interface RecordFailures {
  /** Number of tries after which a record is poison. */
  readonly attempts: number;
  hasFailed(record: ReceivedRecord): boolean;
  /** Notes a failure. Must be called for each record that failed alone, and not in a batch. */
  note(record: ReceivedRecord): Consequence;
  /** Notes that an event was handled, so not every record fails. */
  noteSuccess(): void;
  /** Forgets a record that was handled or stored as poison. */
  clear(record: ReceivedRecord): void;
}

/** Creates the counts. @param pausesMs pauses between the tries of a record (tests). Milliseconds. */
export function createRecordFailures(pausesMs = PAUSES_MS): RecordFailures {
  const failures = new Map<string, number>();
  const failingKeys = new Set<string>();

  return {
    attempts: pausesMs.length + 1,
    hasFailed: (record) => failures.has(idOf(record)),
    note(record) {
      if (failingKeys.size < MAX_REMEMBERED) failingKeys.add(`${record.topic}\n${record.key}`);
      if (failingKeys.size >= OUTAGE_KEYS) return 'outage';
      const id = idOf(record);
      const failed = (failures.get(id) ?? 0) + 1;
      if (failures.size >= MAX_REMEMBERED) failures.clear();
      failures.set(id, failed);
      const pauseMs = pausesMs[failed - 1];
      return pauseMs === undefined ? 'poison' : { pauseMs };
    },
    noteSuccess: () => failingKeys.clear(),
    clear: (record) => failures.delete(idOf(record)),
  };
}

function idOf({ topic, position }: ReceivedRecord): string {
  return `${topic}\n${position}`;
}
