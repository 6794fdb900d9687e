import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { murmur2 } from '../bus/murmur2.ts';
import { inTransaction } from '../postgres.ts';
import { appendEvents, type NewEvent, SHARDS } from './append.ts';
import { type PageRequest, waitingEvents } from './store.ts';
import { OutboxWindow } from './window.ts';

const SHARD = 0;
const actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });
const event = (key: string): NewEvent => ({ trigger: 'return.updated', shopId: 1n, key, actor });

/** Keys of one shard, each another. */
function keysOfShard(count: number): string[] {
  const keys: string[] = [];
  while (keys.length < count) {
    const key = randomUUID();
    if (murmur2(key) % SHARDS === SHARD) keys.push(key);
  }
  return keys;
}

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());

test('what commits behind the page is not overtaken by the next of its key', async () => {
  const { pool } = database;
  const append = (...keys: string[]) =>
    inTransaction(pool, (tx) => appendEvents(tx, keys.map(event)));
  const window = new OutboxWindow();
  window.keep([SHARD]);
  const readPage = async (): Promise<string[]> => {
    const request: PageRequest = { ...window.request([SHARD]), limit: 3 };
    const pages = await waitingEvents(pool, request);
    window.take(pages);
    return pages.flatMap((page) => page.events.map(({ record }) => record.key));
  };

  const [slow = '', ...others] = keysOfShard(6);
  const first = await pool.connect();
  await first.query('begin');
  await appendEvents(first, [event(slow)]);
  await append(...others);
  expect(await readPage()).toEqual(others.slice(0, 3));

  await first.query('commit');
  first.release();
  await append(slow);
  // The rest of the pass, without the second event of the slow one.
  expect(await readPage()).toEqual(others.slice(3));
  expect(await readPage()).toEqual([]);
  // The next one, from the beginning.
  expect(await readPage()).toEqual([slow]);
  await readPage();
  expect(await readPage()).toEqual([slow]);
  const positions = window.lanes.get(slow)?.waiting.map(({ position }) => position) ?? [];
  expect(positions).toHaveLength(2);
  expect(positions).toEqual(positions.toSorted((a, b) => Number(a - b)));
});

test('a backlog that was restored from another server is read to its end', async () => {
  const { pool } = database;
  await pool.query('delete from outbox');
  const keys = keysOfShard(5);
  await inTransaction(pool, (tx) => appendEvents(tx, keys.map(event)));
  await pool.query(`update outbox set written_by = '123456789012345'`);
  const window = new OutboxWindow();
  window.keep([SHARD]);
  for (let nth = 0; nth < 3; nth += 1)
    window.take(await waitingEvents(pool, { ...window.request([SHARD]), limit: 3 }));
  expect([...window.lanes.keys()]).toEqual(keys);
});
