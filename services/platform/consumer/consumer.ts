import { randomUUID } from 'node:crypto';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { Counter, Histogram } from '@opentelemetry/api';
import type pg from 'pg';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { type EventBus, type ReceivedRecord, RetryLaterError } from '../bus/event-bus.ts';
import { parseEvent } from '../outbox/parse.ts';
import { isOutage } from '../postgres/outage.ts';
import { startPartitionKeeper } from '../postgres/partitions.ts';
import { inTransaction, type Queryable, together } from '../postgres/postgres.ts';
import { named, rowsOf, sql } from '../postgres/sql.ts';
import type { Worker } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';
import { type Telemetry, withTraceparent } from '../telemetry/telemetry.ts';
import { isUnavailable } from '../values/errors.ts';
import {
  createRecordFailures,
  dayOfEvent,
  type RecordFailures,
  readEvent,
  storePoison,
} from './poison.ts';

/**
 * How long listeners remember handled events, in days: at least the first number, and longer by the second one than the
 * publisher and Kafka keep events for a replay.
 */
const MIN_REMEMBER_DAYS = 14;
const REMEMBER_LONGER_DAYS = 7;

/** Returns how long listeners remember handled events. Days. */
export function rememberDays(retentionDays: number): number {
  return Math.max(MIN_REMEMBER_DAYS, retentionDays + REMEMBER_LONGER_DAYS);
}

export interface ConsumeOptions<Locked = unknown> {
  readonly bus: EventBus;
  readonly pool: pg.Pool;
  readonly group: string;
  readonly topics: readonly string[];
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** How long publishers keep their events for a replay. Days. */
  readonly retentionDays: number;
  /**
   * Cuts the events into parts, in their order. Each part is one transaction, which is committed before the next part
   * is requested. By default all events are one part. Adds the data of other services that `handle` needs, so that no
   * transaction waits for another service. May be called for events that were already handled.
   */
  readonly inParts?: (events: readonly Event[]) => AsyncIterable<readonly Event[]>;
  /**
   * Starts statements that need not wait for the list of new events. They are sent in one round trip with the statement
   * that finds the new events. `handle` gets their result.
   */
  readonly lock?: (tx: pg.PoolClient, events: readonly Event[]) => Promise<Locked>;
  /**
   * Handles new events, in order within each key, in the transaction that stores their ids. Skips unknown triggers. May
   * be called again for the same events after it threw.
   */
  handle(tx: pg.PoolClient, events: readonly Event[], locked: Locked): Promise<void>;
  /** Pauses between the tries of a failing record (tests). Milliseconds. */
  readonly recordPausesMs?: readonly number[];
}

/**
 * Listens to topics. Every event has its effect once. A batch is one transaction, or several ones in order when
 * `inParts` cuts it.
 *
 * A record that fails three times, with pauses in between, is stored as a poison record. Records of other keys
 * continue. During an outage failures do not count, and the bus waits. Failures of many keys in a row count as an
 * outage, too.
 */
export async function consumeEvents<Locked = unknown>(o: ConsumeOptions<Locked>): Promise<Worker> {
  const meter = o.telemetry.meter;
  const counters: Counters = {
    handled: meter.createCounter('events_consumed_total', { description: 'Events handled.' }),
    repeated: meter.createCounter('events_duplicate_total', {
      description: 'Events that this listener had handled before.',
    }),
    poison: meter.createCounter('events_poison_total', {
      description: 'Records that this listener could not handle and stored as poison.',
    }),
    failed: meter.createCounter('events_failed_total', {
      description: 'Failed tries of single records, by assumed cause (outage or record).',
    }),
    lag: meter.createHistogram('events_lag', {
      description: 'Time from an event to the commit of its effect.',
      unit: 's',
      advice: { explicitBucketBoundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120, 600] },
    }),
  };
  const consumer = { ...o, counters, failures: createRecordFailures(o.recordPausesMs) };
  const subscription = await o.bus.subscribe({
    group: o.group,
    topics: o.topics,
    handle: (records) => handleRecords(consumer, records),
  });
  const keeper = startPartitionKeeper({
    ...o,
    table: 'consumed',
    owner: randomUUID(),
    retentionDays: rememberDays(o.retentionDays),
  });
  return {
    async stop() {
      await Promise.all([subscription.stop(), keeper.stop()]);
    },
  };
}

interface Counters {
  readonly handled: Counter;
  readonly repeated: Counter;
  readonly poison: Counter;
  readonly failed: Counter;
  readonly lag: Histogram;
}
interface Consumer extends ConsumeOptions {
  readonly counters: Counters;
  readonly failures: RecordFailures;
}

/**
 * Handles all records together. After a failure, the bus passes the records of each key alone, so that no key waits for
 * another. This function then handles the records of the key one by one, in order.
 */
async function handleRecords(o: Consumer, records: readonly ReceivedRecord[]): Promise<void> {
  const keys = new Set(records.map(({ topic, key }) => `${topic}\n${key}`));
  if (keys.size > 1 || !records.some(o.failures.hasFailed)) {
    try {
      return await handleEvents(
        o,
        records.map((record) => parseEvent(record.value)),
      );
    } catch (error) {
      if (isTransient(error) || keys.size > 1) throw error;
    }
  }
  for (const record of records) await handleOne(o, record);
}

/** Whether the records did not cause the error, so that they can be handled later. */
function isTransient(error: unknown): boolean {
  return isOutage(error) || isUnavailable(error);
}

/** Handles the events. When a part fails, the parts before it stay handled. */
async function handleEvents(o: Consumer, events: readonly Event[]): Promise<void> {
  const parts = o.inParts ? o.inParts(events) : [events];
  for await (const part of parts) await handlePart(o, part);
}

async function handlePart(o: Consumer, events: readonly Event[]): Promise<void> {
  const [first] = events;
  const work = () =>
    inTransaction(o.pool, async (tx) => {
      const [fresh, locked] = await together(tx, () =>
        Promise.all([remember(tx, o.group, events), o.lock?.(tx, events)]),
      );
      if (fresh.length > 0) await o.handle(tx, fresh, locked);
      return fresh;
    });
  // Continue the trace only for a single event. Several events have many causes.
  const alone = events.length === 1 && first !== undefined;
  const handled = alone
    ? await withTraceparent(first.traceparent, work, first.tracestate)
    : await work();
  if (handled.length > 0) o.failures.noteSuccess();
  const attributes = { group: o.group };
  o.counters.handled.add(handled.length, attributes);
  o.counters.repeated.add(events.length - handled.length, attributes);
  const now = Date.now();
  for (const { occurredAt } of handled) {
    if (occurredAt) o.counters.lag.record((now - timestampMs(occurredAt)) / 1_000, attributes);
  }
}

/** Handles one record. @throws an error that makes the bus wait before it passes this record and later ones again. */
async function handleOne(o: Consumer, record: ReceivedRecord): Promise<void> {
  try {
    await handleEvents(o, [parseEvent(record.value)]);
  } catch (error) {
    if (isTransient(error)) throw error;
    const next = o.failures.note(record);
    o.counters.failed.add(1, { group: o.group, as: next === 'outage' ? 'outage' : 'record' });
    if (next === 'outage') throw error;
    if (next !== 'poison') throw new RetryLaterError(next.pauseMs, { cause: error });
    await storeAsPoison(o, record, error);
  }
  o.failures.clear(record);
}

async function storeAsPoison(o: Consumer, record: ReceivedRecord, error: unknown): Promise<void> {
  await inTransaction(o.pool, async (tx) => {
    await storePoison(tx, { consumer: o.group, record, error, attempts: o.failures.attempts });
    // Remember the event as handled, so that the listener skips its duplicates. Only a replay tries the record again.
    const event = readEvent(record.value);
    if (event) await remember(tx, o.group, [event]);
  });
  o.counters.poison.add(1, { group: o.group });
  const { topic, position } = record;
  o.logger.error({ err: error, group: o.group, topic, position }, 'poison record stored');
}

const eventRows = rowsOf<Event>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  event_id: ['uuid', ({ eventId }) => eventId],
  day: ['date', dayOfEvent],
});

/**
 * Stores the ids of the events, and returns the new events. A second transaction with the same event waits for the
 * first.
 */
async function remember(
  tx: Queryable,
  consumer: string,
  events: readonly Event[],
): Promise<Event[]> {
  const once = [...new Map(events.map((event) => [event.eventId, event])).values()];
  // Sort the events, so that two overlapping batches cannot deadlock.
  const sorted = once.toSorted((a, b) => (a.eventId < b.eventId ? -1 : 1));
  const { rows } = await tx.query<{ event_id: string }>(
    named(
      'consumed-remember',
      sql`insert into consumed_events (shop_id, event_id, day, consumer)
            select u.*, ${consumer}::text from ${eventRows('u', sorted)}
            on conflict (shop_id, event_id, consumer, day) do nothing
            returning event_id`,
    ),
  );
  const fresh = new Set(rows.map((row) => row.event_id));
  return once.filter((event) => fresh.has(event.eventId));
}
