import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  ALL_PUBLISHED,
  appendTo,
  rememberingBus,
  testEvent,
} from '../../../test/kit/events/outbox.ts';
import { silentLogger, testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import type { EventBus } from '../bus/event-bus.ts';
import { inTransaction } from '../postgres.ts';
import type { Telemetry } from '../telemetry.ts';
import { appendEvents, type NewEvent } from './append.ts';
import { type Relay, startRelay } from './relay.ts';
import { replayEvents } from './replay.ts';
import { backlogOf } from './store.ts';

/** Long, so that a slow machine keeps the shards. Milliseconds. */
const LEASE_MS = 60_000;

describe('outbox relay', () => {
  let database: TestDatabase;
  let telemetry: Telemetry;
  beforeAll(async () => {
    database = await createTestDatabase('fraud');
    telemetry = await testTelemetry();
  });
  afterAll(async () => {
    await telemetry.stop();
    await database.drop();
  });
  beforeEach(() => database.pool.query(ALL_PUBLISHED));

  const running = new Set<Relay>();
  const stop = async (relay: Relay): Promise<void> => {
    running.delete(relay);
    await relay.stop();
  };
  const start = (bus: EventBus, o: { pollMs?: number } = {}): Relay => {
    const about = { topic: 't', logger: silentLogger(), telemetry, retentionDays: 7 };
    const relay = startRelay({ pool: database.pool, bus, ...about, leaseMs: LEASE_MS, ...o });
    running.add(relay);
    return relay;
  };
  afterEach(() => Promise.all([...running].map(stop)));
  const append = (...events: NewEvent[]) => appendTo(database.pool, ...events);
  const holders = async () => {
    const { rows } = await database.pool.query<{ count: bigint }>(
      `select count(*) as count from leases where starts_with(name, 'relay/shard/') group by owner`,
    );
    return rows.map((row) => row.count);
  };
  const isEmpty = async () => (await backlogOf(database.pool)).depth === 0;

  test('publishes immediately after the commit, and records that', async () => {
    const memory = rememberingBus();
    // The relay does not poll during the test. A notification starts the read.
    const relay = start(memory.bus, { pollMs: 3_600_000 });
    await relay.flush();
    const key = randomUUID();
    const [id] = await append(testEvent(key, 1n), testEvent(key, 2n));
    await until(() => memory.revisions(key).length === 2);
    expect(memory.revisions(key)).toEqual([1n, 2n]);
    expect(memory.published[0]?.headers).toMatchObject({ event_id: id, trigger: 'return.updated' });
    await relay.flush();
    expect(await isEmpty()).toBe(true);
  });

  test('a rollback publishes no event', async () => {
    const memory = rememberingBus();
    const relay = start(memory.bus);
    const key = randomUUID();
    const failing = inTransaction(database.pool, async (tx) => {
      await appendEvents(tx, [testEvent(key, 1n)]);
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    await relay.flush();
    expect(memory.revisions(key)).toEqual([]);
  });

  test('a row that commits after later ones is published too', async () => {
    const memory = rememberingBus();
    const relay = start(memory.bus);
    const [late, early] = [randomUUID(), randomUUID()];
    const tx = await database.pool.connect();
    await tx.query('begin');
    await appendEvents(tx, [testEvent(late, 1n)]);
    await append(testEvent(early, 1n));
    await until(() => memory.revisions(early).length === 1);
    await relay.flush();
    await tx.query('commit');
    tx.release();
    await until(() => memory.revisions(late).length === 1);
  });

  test('keeps the order of a key with many parallel writers', async () => {
    const memory = rememberingBus();
    start(memory.bus);
    start(memory.bus);
    const { pool } = database;
    const key = `${randomUUID()}`;
    // The lock on this row orders the writers.
    await pool.query(`insert into leases values ($1, 'test', 0, now())`, [key]);
    const write = () =>
      inTransaction(pool, async (tx) => {
        const { rows } = await tx.query<{ token: bigint }>(
          'update leases set token = token + 1 where name = $1 returning token',
          [key],
        );
        await appendEvents(tx, [testEvent(key, rows[0]?.token ?? 0n), testEvent(randomUUID(), 1n)]);
      });
    await Promise.all(Array.from({ length: 60 }, write));
    await until(isEmpty);
    // A relay that cannot renew its lease for seconds may repeat some events; none overtakes another.
    const inOrder = [...new Set(memory.revisions(key))];
    expect(inOrder).toEqual(Array.from({ length: 60 }, (_, n) => BigInt(n + 1)));
  });

  test('two relays share the shards, and publish everything once', async () => {
    const memory = rememberingBus();
    const relays = [start(memory.bus), start(memory.bus)];
    await until(async () => (await holders()).join() === '4,4');
    const keys = Array.from({ length: 40 }, () => randomUUID());
    await append(...keys.map((key) => testEvent(key, 1n)));
    await until(isEmpty);
    expect(memory.ids().length).toBe(40);
    expect(new Set(memory.ids()).size).toBe(40);
    await Promise.all(relays.map(stop));
    expect(await holders()).toEqual([]);
  });

  test('a shard moves after its events in flight have arrived, so no event is repeated', async () => {
    const memory = rememberingBus();
    const arrival = Promise.withResolvers<void>();
    memory.control.after = () => arrival.promise;
    start(memory.bus);
    await until(async () => (await holders()).join() === '8');
    const keys = Array.from({ length: 40 }, () => randomUUID());
    await append(...keys.map((key) => testEvent(key, 1n)));
    await until(() => memory.ids().length === 40);
    start(memory.bus);
    // Both know of each other when each has renewed a lease since both are running.
    const renewals = async () => {
      const { rows } = await database.pool.query<{ expires_at: Date }>(
        `select expires_at from leases where starts_with(name, 'relay/process/') order by owner`,
      );
      return rows.map((row) => row.expires_at.getTime());
    };
    await until(async () => (await renewals()).length === 2);
    const before = await renewals();
    await until(async () => (await renewals()).every((at, n) => at > (before[n] ?? 0) + 500));
    arrival.resolve();
    await until(async () => (await holders()).join() === '4,4');
    await until(isEmpty);
    expect(memory.ids().length).toBe(40);
  });

  test('killed between publishing and recording, it repeats events with the same id', async () => {
    const memory = rememberingBus();
    // The acknowledgement never arrives, as if the process had died.
    memory.control.after = () => new Promise(() => {});
    const dying = start(memory.bus);
    const key = randomUUID();
    const [id] = await append(testEvent(key, 1n));
    await until(() => memory.revisions(key).length === 1);
    await stop(dying);
    expect(await isEmpty()).toBe(false);

    memory.control.after = async () => {};
    start(memory.bus);
    await until(isEmpty);
    expect(memory.ids()).toEqual([id, id]);
  });

  test('while the bus is unavailable rows wait, and a key that hangs blocks no other', async () => {
    const memory = rememberingBus();
    const hanging = randomUUID();
    const asked = { hanging: 0, other: 0 };
    memory.control.before = (records) => {
      if (records[0]?.key !== hanging) {
        asked.other += 1;
        return Promise.reject(new Error('unavailable'));
      }
      asked.hanging += 1;
      return new Promise(() => {});
    };
    start(memory.bus);
    const key = randomUUID();
    await append(testEvent(hanging, 1n), testEvent(key, 1n), testEvent(key, 2n));
    await until(() => asked.hanging === 1 && asked.other >= 2);
    expect((await backlogOf(database.pool)).depth).toBe(3);
    memory.control.before = async () => {};
    await until(() => memory.revisions(key).length === 2);
    expect(memory.revisions(key)).toEqual([1n, 2n]);
    await until(async () => (await backlogOf(database.pool)).depth === 1);
  });

  test('metrics show how many events wait and how old they are', async () => {
    await append(testEvent(randomUUID(), 1n));
    const memory = rememberingBus();
    memory.control.before = () => Promise.reject(new Error('unavailable'));
    start(memory.bus);
    // On a slow machine the query for the metric may time out. Then the test repeats it.
    const text = await until(async () => {
      const page = await (await fetch(telemetry.metricsUrl)).text();
      return /^outbox_waiting\{.*topic="t".*\} 1$/m.test(page) && page;
    });
    expect(text).toMatch(/^outbox_oldest_age_seconds/m);
  });

  test('replay publishes a time range again, in order, with the same ids', async () => {
    const memory = rememberingBus();
    const from = new Date(Date.now() - 60_000);
    const key = randomUUID();
    const ids = await append(...[1n, 2n, 3n].map((revision) => testEvent(key, revision)));
    const to = new Date(Date.now() + 60_000);
    await replayEvents({ pool: database.pool, bus: memory.bus, topic: 't', from, to });
    expect(memory.ids().slice(-3)).toEqual(ids);
    const before = memory.ids().length;
    await replayEvents({ pool: database.pool, bus: memory.bus, topic: 't', from, to: from });
    expect(memory.ids().length).toBe(before);
  });
});
