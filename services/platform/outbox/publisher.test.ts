import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { advanceClock, restoreClock, stopClock } from '../../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  ALL_PUBLISHED,
  appendTo,
  drain,
  keysOfShard,
  publisherOn,
  rememberingBus,
  SHARD,
  testEvent,
} from '../../../test/kit/events/outbox.ts';
import { until } from '../../../test/kit/until.ts';
import { murmur2 } from '../kafka/murmur2.ts';
import { inTransaction } from '../postgres/postgres.ts';
import { appendEvents, SHARDS } from './append.ts';
import { eventIdAt, timeOfEventId } from './event-id.ts';
import { shardsNotified } from './notify.ts';
import { backlogOf } from './store.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());
beforeEach(() => database.pool.query(ALL_PUBLISHED));
afterEach(restoreClock);

const SMALL = { events: 3, bytes: 1_000_000 };

const append = (...keys: string[]) => appendTo(database.pool, ...keys.map((key) => testEvent(key)));
const depth = async () => (await backlogOf(database.pool)).depth;

describe('a key whose send hangs or fails', () => {
  test('blocks no other key until its events fill the shard, and none overtakes', async () => {
    const memory = rememberingBus();
    const publisher = publisherOn(database.pool, memory.bus, SMALL);
    const [stuck = '', free = ''] = keysOfShard(2);
    const release = Promise.withResolvers<void>();
    memory.control.before = async ([record]) => {
      if (record?.key === stuck) await release.promise;
    };
    const step = async () => {
      publisher.notify([SHARD]);
      advanceClock(1_000);
      await publisher.step(true);
      await new Promise(setImmediate);
    };
    await publisher.step(true);
    for (const key of [stuck, free, stuck, free]) {
      await append(key);
      await step();
    }
    expect(memory.keys()).toEqual([free, free]);
    // Two of three places are taken. With a third the shard waits.
    await append(stuck);
    await step();
    await append(free);
    await step();
    expect(memory.keys()).toEqual([free, free]);
    expect(await depth()).toBe(4);
    release.resolve();
    await drain(publisher);
    expect(memory.keys().filter((key) => key === stuck)).toHaveLength(3);
    expect(memory.keys()).toHaveLength(6);
  });

  test('is known to the next relay, which repeats no event of other keys', async () => {
    const memory = rememberingBus();
    const [stuck = '', free = ''] = keysOfShard(2);
    memory.control.before = async ([record]) => {
      if (record?.key === stuck) throw new Error('refused');
    };
    const publisher = publisherOn(database.pool, memory.bus);
    await append(stuck, free, stuck, free);
    await publisher.step(true);
    await publisher.step(true);
    await publisher.finished();
    await publisher.step(true);
    expect(memory.keys()).toEqual([free, free]);
    expect(await depth()).toBe(2);
    memory.control.before = async () => {};
    await append(stuck);
    await drain(publisherOn(database.pool, memory.bus));
    expect(memory.keys()).toEqual([free, free, stuck, stuck, stuck]);
  });
});

test('a waiting event that an operator deletes is not requested any more', async () => {
  const memory = rememberingBus();
  memory.control.before = () => Promise.reject(new Error('refused'));
  const publisher = publisherOn(database.pool, memory.bus);
  await append(...keysOfShard(1));
  await publisher.step(true);
  await publisher.step(true);
  await publisher.finished();
  const operator = new pg.Client(database.migratorUrl);
  await operator.connect();
  await operator.query('delete from fraud.events');
  await operator.end();
  advanceClock(1_000);
  expect(await publisher.step(true)).toBe(Number.POSITIVE_INFINITY);
  advanceClock(1_000);
  expect(await publisher.step(true)).toBe(Number.POSITIVE_INFINITY);
  expect(publisher.isEmpty()).toBe(true);
});

test('a relay that has lost a shard does not change it', async () => {
  const [old, current] = [rememberingBus(), rememberingBus()];
  const zombie = publisherOn(database.pool, old.bus);
  await append(...keysOfShard(1));
  await drain(zombie);
  const heir = publisherOn(database.pool, current.bus);
  const ids = await append(...keysOfShard(3));
  await drain(heir);
  // It still acts as if it owned the shard. Before it sends, it reads the progress of the other relay.
  await drain(zombie);
  expect([old.ids().length, current.ids()]).toEqual([1, ids]);
  expect(await depth()).toBe(0);
});

test('bodies in flight are limited for each shard separately', async () => {
  const memory = rememberingBus();
  memory.control.before = () => new Promise(() => {});
  const asked: string[] = [];
  const bus = {
    publish: (topic: string, records: Parameters<typeof memory.bus.publish>[1]) => {
      asked.push(...records.map(({ key }) => key));
      return memory.bus.publish(topic, records);
    },
  };
  const snapshot = new Uint8Array(800_000);
  const keys = keysOfShard(5);
  for (const key of keys) await appendTo(database.pool, { ...testEvent(key), snapshot });
  const publisher = publisherOn(database.pool, bus);
  await publisher.step(true);
  await publisher.step(true);
  expect(asked).toEqual(keys.slice(0, 2));
  advanceClock(1_000);
  for (let nth = 0; nth < 4; nth += 1) await publisher.step(true);
  // 2 MiB, and one event more that started below the limit.
  expect(asked).toEqual(keys.slice(0, 3));
});

test('events that arrive close together are read together, and the first one is read immediately', async () => {
  const memory = rememberingBus();
  let statements = 0;
  const pool = {
    query: (async (config: pg.QueryConfig) => {
      statements += 1;
      return database.pool.query(config);
    }) as unknown as pg.Pool['query'],
  };
  const publisher = publisherOn(pool, memory.bus);
  await drain(publisher);
  stopClock();
  advanceClock(1_000);
  const before = statements;
  const step = async () => {
    publisher.notify([SHARD]);
    const restMs = await publisher.step(false);
    await publisher.finished();
    return restMs;
  };
  const keys = keysOfShard(3);
  await append(...keys.slice(0, 1));
  await step();
  expect(memory.keys()).toEqual(keys.slice(0, 1));
  for (const key of keys.slice(1)) {
    await append(key);
    expect(await step()).toBeGreaterThan(0);
  }
  expect(statements - before).toBe(1);
  advanceClock(100);
  await step();
  expect(memory.keys()).toEqual(keys);
  expect(statements - before).toBe(2);
});

test('a failed statement loses no event', async () => {
  const memory = rememberingBus();
  let isBroken = false;
  const pool = {
    query: (async (config: pg.QueryConfig) => {
      if (isBroken) throw new Error('no connection');
      return database.pool.query(config);
    }) as unknown as pg.Pool['query'],
  };
  const publisher = publisherOn(pool, memory.bus);
  const ids = await append(...keysOfShard(2));
  await publisher.step(true);
  await publisher.step(true);
  await publisher.finished();
  ids.push(...(await append(...keysOfShard(2))));
  publisher.notify([SHARD]);
  isBroken = true;
  await expect(publisher.step(true)).rejects.toThrow('no connection');
  isBroken = false;
  for (let nth = 0; nth < 3; nth += 1) {
    await publisher.step(true);
    await publisher.finished();
  }
  expect(memory.ids()).toEqual(ids);
  expect(await depth()).toBe(0);
});

describe('a shard that moves to another relay', () => {
  const begin = async () => {
    const memory = rememberingBus();
    const arrival = Promise.withResolvers<void>();
    memory.control.after = () => arrival.promise;
    const publisher = publisherOn(database.pool, memory.bus);
    await append(...keysOfShard(1));
    await publisher.step(true);
    const reading = publisher.step(true);
    expect(publisher.isBusy(SHARD)).toBe(true);
    await reading;
    publisher.assign([]);
    return { publisher, arrival };
  };

  test('is busy until its events in flight are acknowledged and recorded', async () => {
    const { publisher, arrival } = await begin();
    expect(publisher.isBusy(SHARD)).toBe(true);
    arrival.resolve();
    await publisher.finished();
    expect(publisher.isBusy(SHARD)).toBe(true);
    await publisher.step(true);
    expect(publisher.isBusy(SHARD)).toBe(false);
    expect(await depth()).toBe(0);
  });

  test('does not wait for a hanging bus, and no more of it is read', async () => {
    const { publisher } = await begin();
    await append(...keysOfShard(1));
    publisher.notify([SHARD]);
    expect(await publisher.step(true)).toBe(Number.POSITIVE_INFINITY);
    expect(publisher.isBusy(SHARD)).toBe(true);
    advanceClock(6_000);
    expect(publisher.isBusy(SHARD)).toBe(false);
    expect(await depth()).toBe(2);
  });
});

test('a rejected key with more waiting bytes than a page may have is sent page by page', async () => {
  const memory = rememberingBus();
  const [large = '', other = ''] = keysOfShard(2);
  const snapshot = toBinary(
    ReturnSchema,
    create(ReturnSchema, { statusPageUrl: 'x'.repeat(1_000) }),
  );
  const publisher = publisherOn(database.pool, memory.bus, { events: 10, bytes: 2_500 });
  memory.control.before = async ([record]) => {
    if (record?.key === large) throw new Error('refused');
  };
  for (let revision = 1n; revision <= 6n; revision += 1n) {
    await appendTo(database.pool, { ...testEvent(large, revision), snapshot });
  }
  await appendTo(database.pool, testEvent(other));
  // The relay has read all events when the last one is published.
  while (memory.keys().length === 0) {
    publisher.notify([SHARD]);
    await publisher.step(true);
    await publisher.finished();
  }
  expect(memory.keys()).toEqual([other]);
  memory.control.before = async () => {};
  advanceClock(1_000);
  for (let page = 0; page < 6; page += 1) {
    await publisher.step(true);
    await publisher.finished();
  }
  expect(memory.revisions(large)).toEqual([1n, 2n, 3n, 4n, 5n, 6n]);
  expect((await backlogOf(database.pool)).depth).toBe(0);
});

test('later events of a key wait for a rejected one', async () => {
  const memory = rememberingBus();
  const [key = ''] = keysOfShard(1);
  const publisher = publisherOn(database.pool, memory.bus);
  memory.control.before = () => Promise.reject(new Error('refused'));
  const append = (revision: bigint) => appendTo(database.pool, testEvent(key, revision));
  await append(1n);
  await publisher.step(true);
  await publisher.step(true);
  await publisher.finished();
  memory.control.before = async () => {};
  await append(2n);
  publisher.notify([SHARD]);
  await publisher.step(true);
  await publisher.finished();
  expect(memory.revisions(key)).toEqual([]);
  advanceClock(1_000);
  await publisher.step(true);
  await publisher.finished();
  expect(memory.revisions(key)).toEqual([1n, 2n]);
});

describe('notify', () => {
  let listener: pg.Client;
  beforeAll(async () => {
    listener = new pg.Client({ connectionString: database.url });
    await listener.connect();
  });
  afterAll(() => listener.end());

  test('a commit whose shard this process does not relay notifies the other relays', async () => {
    const received: string[] = [];
    listener.on('notification', ({ payload = '' }) => received.push(payload));
    await listener.query('listen outbox_fraud');
    const actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });
    const event = { trigger: 'return.updated', shopId: 1n, key: '1:1', actor };
    await inTransaction(database.pool, (tx) => appendEvents(tx, [event]));
    // Notifications of earlier tests may still arrive.
    await until((see) =>
      see(received)
        .flatMap(shardsNotified)
        .includes(murmur2('1:1') % SHARDS),
    );
  });
});

describe('the id of an event', () => {
  test.each(['1970-01-01T00:00:00.000Z', '2026-11-24T05:10:11.123Z', '9999-12-31T23:59:59.999Z'])(
    'is a UUID of version 7 with the time %s',
    (text) => {
      const at = new Date(text);
      const id = eventIdAt(at);
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect([timeOfEventId(id), timeOfEventId(id.toUpperCase())]).toEqual([at, at]);
    },
  );

  test('is another one for each event, and the same for the same rest', () => {
    const at = new Date();
    const ids = new Set(Array.from({ length: 1_000 }, () => eventIdAt(at)));
    expect(ids.size).toBe(1_000);
    const rest = '5f3c7d0e-1b2a-4c3d-8e4f-0123456789ab';
    expect(eventIdAt(at, rest)).toBe(eventIdAt(at, rest));
    expect(eventIdAt(at, rest)).toMatch(/-7c3d-8e4f-0123456789ab$/);
  });

  test('keeps its form for a time that cannot be in it', () => {
    expect(timeOfEventId(eventIdAt(new Date(-1)))).toEqual(new Date(0));
    expect(timeOfEventId(eventIdAt(new Date(Number.NaN)))).toEqual(new Date(0));
  });

  test.each(['', 'no uuid', '5f3c7d0e-1b2a-4c3d-8e4f-0123456789ab', "' or 1=1"])(
    'is not %j',
    (text) => expect(timeOfEventId(text)).toBeUndefined(),
  );
});
