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
      record.key,
      record.value,
      JSON.stringify(record.headers),
      reasonOf(o.error),
      o.attempts,
    ],
  );
}

function reasonOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).slice(0, 1_000);
}

export interface PoisonReplay {
  readonly pool: pg.Pool;
  readonly bus: EventBus;
  readonly consumer: string;
}

/**
 * Publishes parked records again, oldest first, to be tried anew by their listener; other groups
 * drop them as known. One that fails again is parked again. Returns how many were published.
 */
export async function replayPoison(o: PoisonReplay): Promise<number> {
  const { rows } = await o.pool.query<ParkedRow>(
    `select id, topic, key, value, headers from poison_records where consumer = $1 order by id`,
    [o.consumer],
  );
  for (const { id, topic, key, value, headers } of rows) {
    await forget(o, value);
    await o.bus.publish(topic, [{ key, value, headers }]);
    await o.pool.query('delete from poison_records where id = $1', [id]);
  }
  return rows.length;
}

interface ParkedRow {
  id: bigint;
  topic: string;
  key: string;
  value: Buffer;
  headers: Record<string, string>;
}

/** Parking marked the event as handled; without that mark it is tried again. */
async function forget(o: PoisonReplay, value: Uint8Array): Promise<void> {
  const event = readEvent(value);
  if (!event) return;
  await o.pool.query(
    'delete from consumed_events where shop_id = $1 and event_id = $2 and consumer = $3',
    [event.shopId, event.eventId, o.consumer],
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
