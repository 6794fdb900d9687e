import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  ALL_PUBLISHED,
  appendTo,
  drain,
  publisherOn,
  rememberingBus,
  testEvent,
} from '../../../test/kit/events/outbox.ts';
import { until } from '../../../test/kit/until.ts';
import { murmur2 } from '../bus/murmur2.ts';
import { appendEvents, SHARDS } from './append.ts';
import { FIRST_CURSOR, type ListCursor, listPublished } from './published.ts';

let database: TestDatabase;
let cursor: ListCursor;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.pool.query(ALL_PUBLISHED);
  cursor = (await all(FIRST_CURSOR)).next;
});

/** All events after the cursor, over all pages. */
async function all(from: ListCursor): Promise<{ ids: string[]; next: ListCursor }> {
  const ids: string[] = [];
  for (let next = from; ; ) {
    const page = await listPublished(database.pool, next);
    ids.push(...page.events.map(({ eventId }) => eventId));
    next = page.next;
    if (!page.isMore) return { ids, next };
  }
}

/**
 * Waits until exactly these events are listed after the cursor, each once. Transactions of other databases of the
 * server count as in progress too, and delay the list until they end.
 */
async function untilListed(ids: readonly string[]): Promise<void> {
  const listed: string[] = [];
  await until(async () => {
    const page = await all(cursor);
    cursor = page.next;
    listed.push(...page.ids);
    return listed.length >= ids.length;
  });
  expect(listed.toSorted()).toEqual(ids.toSorted());
}

const append = (...keys: string[]) => appendTo(database.pool, ...keys.map((key) => testEvent(key)));

/** Different keys of one shard. */
function keysOfOneShard(count: number): string[] {
  const keys: string[] = [];
  while (keys.length < count) {
    const key = randomUUID();
    if (murmur2(key) % SHARDS === 0) keys.push(key);
  }
  return keys;
}

describe('list of published events', () => {
  test('lists an event once it is published, and not again after the cursor', async () => {
    const { bus } = rememberingBus();
    const publisher = publisherOn(database.pool, bus);
    const keys = Array.from({ length: 20 }, () => randomUUID());
    const ids = await append(...keys);
    expect((await all(cursor)).ids).toEqual([]);
    await drain(publisher);
    await untilListed(ids);
    const more = await append(...keys);
    await drain(publisher);
    await untilListed(more);
  });

  test('comes in pages of limited size, with every event once', async () => {
    const ids = await append(...Array.from({ length: 1_100 }, () => randomUUID()));
    await drain(publisherOn(database.pool, rememberingBus().bus));
    await untilListed(ids);
    const page = await listPublished(database.pool, FIRST_CURSOR);
    expect(page.isMore).toBe(true);
    expect(page.events.length).toBeLessThanOrEqual(1_000);
  });

  test('ends before an event that the bus rejected, until the bus accepts it', async () => {
    const memory = rememberingBus();
    const publisher = publisherOn(database.pool, memory.bus);
    const [refused = '', ...others] = keysOfOneShard(3);
    const before = await append(...others.slice(0, 1));
    await drain(publisher);
    await untilListed(before);
    memory.control.before = async (records) => {
      if (records.some(({ key }) => key === refused)) throw new Error('refused');
    };
    const ids = await append(refused, ...others.slice(1));
    publisher.notify([0]);
    await publisher.step(true);
    await publisher.finished();
    await publisher.step(true);
    expect(memory.keys()).toEqual(others);
    expect((await all(cursor)).ids).toEqual([]);
    memory.control.before = async () => {};
    await drain(publisherOn(database.pool, memory.bus));
    await untilListed(ids);
  });

  test('leaves out no event of a transaction that commits late', async () => {
    const { bus } = rememberingBus();
    const publisher = publisherOn(database.pool, bus);
    const [slow = '', other = '', last = ''] = keysOfOneShard(3);
    const tx = await database.pool.connect();
    await tx.query('begin');
    const [late = ''] = await appendEvents(tx, [testEvent(slow)]);
    const [early = ''] = await append(other);
    await drain(publisher);
    // Its event has a lower position than published ones, so the cursor must not pass it.
    expect((await all(cursor)).ids).toEqual([]);
    await tx.query('commit');
    tx.release();
    expect((await all(cursor)).ids).toEqual([]);
    await drain(publisher);
    const [newest = ''] = await append(last);
    await drain(publisher);
    await untilListed([late, early, newest]);
  });

  test('is complete although a transaction without events was open when the shard was read', async () => {
    const publisher = publisherOn(database.pool, rememberingBus().bus);
    const tx = await database.pool.connect();
    await tx.query('begin');
    await tx.query('select pg_current_xact_id()');
    const ids = await append(...keysOfOneShard(1));
    await drain(publisher);
    await tx.query('rollback');
    tx.release();
    await untilListed(ids);
  });
});
