import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { advanceClock, restoreClock } from '../../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  ALL_PUBLISHED,
  appendTo,
  keysOfShard,
  publisherOn,
  rememberingBus,
  SHARD,
  testEvent,
} from '../../../test/kit/events/outbox.ts';
import { backlogOf } from './store.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());
beforeEach(() => database.pool.query(ALL_PUBLISHED));
afterEach(restoreClock);

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
