import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
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
import { backlogOf } from './store.ts';

const SMALL = { events: 3, bytes: 1_000_000 };

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());
beforeEach(() => database.pool.query(ALL_PUBLISHED));
afterEach(restoreClock);

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

test('a waiting event that an older release publishes is not requested any more', async () => {
  const memory = rememberingBus();
  memory.control.before = () => Promise.reject(new Error('refused'));
  const publisher = publisherOn(database.pool, memory.bus);
  await append(...keysOfShard(1));
  await publisher.step(true);
  await publisher.step(true);
  await publisher.finished();
  await database.pool.query('delete from outbox');
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
