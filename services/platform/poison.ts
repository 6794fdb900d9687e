import type pg from 'pg';
import type { Event } from '../../proto/gen/rms/events/v1/events_pb.ts';
import type { ReceivedRecord } from './bus/event-bus.ts';
import { parseEvent } from './outbox/parse.ts';
import { inTransaction, type Queryable } from './postgres.ts';

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
  readonly consumer: string;
  readonly handle: (tx: pg.PoolClient, events: readonly Event[]) => Promise<void>;
  /** All of them unless named. */
  readonly ids?: readonly bigint[];
}

/**
 * Tries parked records again, oldest first, each in its own transaction, and removes those that
 * now succeed. Says how many did, and why the others did not.
 */
export async function replayPoison(
  o: PoisonReplay,
): Promise<{ handled: number; refused: { id: bigint; reason: string }[] }> {
  const { rows } = await o.pool.query<{ id: bigint }>(
    `select id from poison_records
     where consumer = $1 and ($2::bigint[] is null or id = any($2)) order by id`,
    [o.consumer, o.ids ?? null],
  );
  const refused: { id: bigint; reason: string }[] = [];
  for (const { id } of rows) {
    try {
      await inTransaction(o.pool, (tx) => replayOne(tx, o, id));
    } catch (error) {
      refused.push({ id, reason: reasonOf(error) });
    }
  }
  return { handled: rows.length - refused.length, refused };
}

async function replayOne(tx: pg.PoolClient, o: PoisonReplay, id: bigint): Promise<void> {
  const { rows } = await tx.query<{ value: Buffer }>(
    'delete from poison_records where id = $1 and consumer = $2 returning value',
    [id, o.consumer],
  );
  for (const { value } of rows) await o.handle(tx, [parseEvent(value)]);
}
