import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { ALL_PUBLISHED } from '../../../test/kit/events/outbox.ts';
import { startPublisher } from '../../../test/kit/events/publisher.ts';
import { silentLogger, testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { type EventBus, eventsTopic } from '../bus/event-bus.ts';
import { createInProcessBus } from '../bus/in-process.ts';
import { consumeEvents } from '../consumer/consumer.ts';
import { inTransaction } from '../postgres/postgres.ts';
import type { Worker } from '../process/worker.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { appendEvents, SHARDS } from './append.ts';
import { oldestMissing, type SweepOptions, sweep } from './sweep.ts';

const SOURCE = 'fraud';
const TOPIC = eventsTopic(SOURCE);
const actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });

/** The publisher's database. */
let source: TestDatabase;
/** The listener's database. */
let database: TestDatabase;
let telemetry: Telemetry;
let bus: EventBus;
let publisher: Awaited<ReturnType<typeof startPublisher>>;
let group: string;
let listener: Worker;
let handled: string[];
let handle: (id: string) => void;
let again: number;
/** Position of the last event that earlier tests stored. */
let before: bigint;

beforeAll(async () => {
  [source, database] = [await createTestDatabase(SOURCE), await createTestDatabase('webhooks')];
  telemetry = await testTelemetry();
  publisher = await startPublisher(source.pool, TOPIC, (topic, records) =>
    bus.publish(topic, records),
  );
});
afterAll(async () => {
  await publisher.stop();
  await telemetry.stop();
  await database.drop();
  await source.drop();
});
beforeEach(async () => {
  group = `listener-${randomUUID()}`;
  [handled, again, handle] = [[], 0, () => {}];
  bus = createInProcessBus({ backoff: () => 5 });
  listener = await consumeEvents({
    bus,
    pool: database.pool,
    group,
    topics: [TOPIC],
    logger: silentLogger(),
    telemetry,
    retentionDays: 7,
    recordPausesMs: [1, 1],
    handle: async (_, events) => {
      for (const { eventId } of events) handle(eventId);
      handled.push(...events.map(({ eventId }) => eventId));
    },
  });
  const { rows } = await source.pool.query<{ last: bigint }>(
    'select coalesce(max(position), 0) as last from events',
  );
  before = rows[0]?.last ?? 0n;
  await database.pool.query('insert into event_sweeps values ($1, $2, $3, now())', [
    ...[group, SOURCE, Array.from({ length: SHARDS }, () => before).join('.')],
  ]);
});
afterEach(async () => {
  await listener.stop();
  await bus.close();
});

/** Stored events that the relay has recorded as published. The listener got some of them. */
async function publish(count: number, o: { lost: boolean }): Promise<string[]> {
  const key = `1:${randomUUID()}`;
  const events = Array.from({ length: count }, () => {
    return { trigger: 'fraud_report.created', shopId: 1n, key, actor };
  });
  const ids = await inTransaction(source.pool, (tx) => appendEvents(tx, events));
  await source.pool.query(ALL_PUBLISHED);
  const records = (await stored()).filter((record) => record.key === key);
  if (!o.lost) await bus.publish(TOPIC, records);
  // Events that another listener has handled do not count.
  await database.pool.query(
    `insert into consumed_events (shop_id, event_id, day, consumer)
     select 1, id, (now() at time zone 'utc')::date, 'another' from unnest($1::uuid[]) as id`,
    [ids],
  );
  return ids;
}

/** The events of this test. */
async function stored() {
  const { rows } = await source.pool.query<{ position: bigint; key: string; value: Buffer }>(
    'select position, key, value from events where position > $1 order by position',
    [before],
  );
  return rows.map((row) => ({ ...row, headers: {} }));
}

const sweepOnce = (o: Partial<SweepOptions> = {}): Promise<void> =>
  sweep(
    {
      group,
      source: SOURCE,
      pool: database.pool,
      bus,
      events: publisher.client,
      logger: silentLogger(),
      onPublished: (count) => {
        again += count;
      },
      // The next sweep may start immediately, and an event may be published again immediately, at most three times.
      everyMs: 0,
      pausesMs: [0, 0, 0],
      keptDays: 14,
      ...o,
    },
    new AbortController().signal,
  );
const missingFor = () => oldestMissing(database.pool, { group, source: SOURCE });

describe('sweep of events', () => {
  test('publishes exactly the events again that the listener did not get, in order', async () => {
    const got = await publish(3, { lost: false });
    const lost = await publish(250, { lost: true });
    const pausesMs = [3_600_000];
    await sweepOnce({ pausesMs });
    expect(handled).toEqual([...got, ...lost]);
    expect(again).toBe(250);
    await sweepOnce({ pausesMs });
    expect(again).toBe(250);
    expect(await missingFor()).toBe(0);
  });

  test('works page by page, and continues where it ended', async () => {
    const got = await publish(1_100, { lost: false });
    const [lost = ''] = await publish(1, { lost: true });
    await sweepOnce();
    expect(handled).toEqual([...got, lost]);
    let listed = 0;
    const events = {
      publishAgain: publisher.client.publishAgain,
      listPublished: async (...call: Parameters<typeof publisher.client.listPublished>) => {
        const page = await publisher.client.listPublished(...call);
        listed += page.events.length;
        return page;
      },
    };
    const [next = ''] = await publish(1, { lost: true });
    await sweepOnce({ events });
    expect(handled.at(-1)).toBe(next);
    expect(listed).toBe(1);
  });

  test('skips poison records, which need an operator', async () => {
    handle = () => {
      throw new Error('cannot be handled');
    };
    await publish(1, { lost: false });
    handle = () => {};
    await sweepOnce();
    expect([handled, again]).toEqual([[], 0]);
  });

  test('waits while the listener lags, and publishes missing events after it has caught up', async () => {
    const lost = await publish(2, { lost: true });
    const asked: unknown[] = [];
    const lagging = {
      hasCaughtUp: async (...about: unknown[]) => {
        asked.push(about.slice(0, 2));
        return false;
      },
    };
    await sweepOnce({ bus: lagging });
    expect([handled, again, await missingFor()]).toEqual([[], 0, 0]);
    expect(asked).toEqual([[group, TOPIC]]);
    await sweepOnce();
    expect(handled).toEqual(lost);
  });

  test.each([1, 2])(
    'does not count events as lost that are handled while it waits for the listener (wait %s)',
    async (nth) => {
      const [late = ''] = await publish(1, { lost: true });
      let waits = 0;
      const catchesUp = {
        hasCaughtUp: async () => {
          waits += 1;
          if (waits === nth) await bus.publish(TOPIC, await stored());
          return true;
        },
      };
      await sweepOnce({ bus: catchesUp });
      expect([handled, again]).toEqual([[late], 0]);
    },
  );

  test('publishes lost events again a few times, while the listener does not lag', async () => {
    await publish(1, { lost: true });
    await listener.stop();
    const deaf = createInProcessBus();
    bus = deaf;
    await sweepOnce();
    expect(again).toBe(1);
    await sweepOnce({ bus: { hasCaughtUp: async () => false } });
    expect(again).toBe(1);
    // Its pauses have not ended.
    await database.pool.query(
      `update missing_events set next_at = now() + interval '1 minute' where consumer = $1`,
      [group],
    );
    await sweepOnce();
    expect(again).toBe(1);
    await database.pool.query(`update missing_events set next_at = now() where consumer = $1`, [
      group,
    ]);
    for (let nth = 0; nth < 5; nth += 1) await sweepOnce();
    expect(again).toBe(3);
    expect(await missingFor()).toBeGreaterThan(0);
    // It does not delay events that are lost later.
    await publish(1, { lost: true });
    await sweepOnce();
    expect(again).toBe(4);
    await sweepOnce({ keptDays: 0 });
    expect(await missingFor()).toBe(0);
  });

  test('is done by one of two processes', async () => {
    await publish(1, { lost: true });
    let calls = 0;
    const events = {
      ...publisher.client,
      listPublished: async (...call: Parameters<typeof publisher.client.listPublished>) => {
        calls += 1;
        return await publisher.client.listPublished(...call);
      },
    };
    await Promise.all([1, 2].map(() => sweepOnce({ events, everyMs: 60_000 })));
    await sweepOnce({ events, everyMs: 60_000 });
    expect([calls, again]).toEqual([1, 1]);
  });

  test("is not delayed when the database's clock was set back", async () => {
    await sweepOnce();
    await database.pool.query(
      `update event_sweeps set next_at = now() + interval '1 hour' where consumer = $1`,
      [group],
    );
    const lost = await publish(1, { lost: true });
    await sweepOnce({ everyMs: 60_000 });
    expect(handled).toEqual(lost);
  });

  test('finds events again that it could not publish', async () => {
    const lost = await publish(1, { lost: true });
    const { listPublished } = publisher.client;
    const publishAgain = () => Promise.reject(new ConnectError('unavailable', Code.Unavailable));
    await expect(sweepOnce({ events: { listPublished, publishAgain } })).rejects.toThrow(
      'unavailable',
    );
    expect(again).toBe(0);
    await sweepOnce();
    expect(handled).toEqual(lost);
  });
});
