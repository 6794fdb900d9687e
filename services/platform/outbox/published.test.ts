import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
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
import { murmur2 } from '../kafka/murmur2.ts';
import { appendEvents, SHARDS } from './append.ts';
import { FIRST_CURSOR, type ListCursor, listPublished } from './routes.ts';
import { backlogOf } from './store.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());

describe('list of published events', () => {
  let cursor: ListCursor;
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

  const append = (...keys: string[]) =>
    appendTo(database.pool, ...keys.map((key) => testEvent(key)));

  /** Different keys of one shard. */
  function keysOfOneShard(count: number): string[] {
    const keys: string[] = [];
    while (keys.length < count) {
      const key = randomUUID();
      if (murmur2(key) % SHARDS === 0) keys.push(key);
    }
    return keys;
  }

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

describe('late commits', () => {
  const SHARD = 0;
  const SMALL = { events: 3, bytes: 1_000_000 };

  /** Different keys of one shard. */
  function keysOfShard(count: number): string[] {
    const keys: string[] = [];
    while (keys.length < count) {
      const key = randomUUID();
      if (murmur2(key) % SHARDS === SHARD) keys.push(key);
    }
    return keys;
  }
  beforeEach(() => database.pool.query(ALL_PUBLISHED));

  const append = (...keys: string[]) =>
    appendTo(database.pool, ...keys.map((key) => testEvent(key)));
  const depth = async () => (await backlogOf(database.pool)).depth;

  /** A transaction that is open until the test ends it. */
  async function open() {
    const tx = await database.pool.connect();
    await tx.query('begin');
    return {
      append: (...keys: string[]) =>
        appendEvents(
          tx,
          keys.map((key) => testEvent(key)),
        ),
      query: (text: string) => tx.query(text),
      async end(how: 'commit' | 'rollback') {
        await tx.query(how);
        tx.release();
      },
    };
  }

  describe('a transaction that commits late', () => {
    test('is published although the shard was read further, before the next event of its key', async () => {
      const memory = rememberingBus();
      const publisher = publisherOn(database.pool, memory.bus, SMALL);
      const [slow = '', ...others] = keysOfShard(6);
      const late = await open();
      await late.append(slow);
      await append(...others);
      // The shard is loaded; then a page of three is read.
      await publisher.step(true);
      await publisher.step(true);
      await publisher.finished();
      expect(memory.keys()).toEqual(others.slice(0, 3));
      await late.end('commit');
      await append(slow);
      await drain(publisher);
      expect(memory.keys()).toEqual([...others.slice(0, 3), slow, ...others.slice(3), slow]);
      expect(await depth()).toBe(0);
    });

    test('is published by a relay that started later, which repeats no event', async () => {
      const before = rememberingBus();
      const late = await open();
      const ids = await late.append(...keysOfShard(7));
      const first = publisherOn(database.pool, before.bus);
      await append(...keysOfShard(5));
      await drain(first);
      expect(before.ids()).toHaveLength(5);
      await late.end('commit');
      const after = rememberingBus();
      await drain(publisherOn(database.pool, after.bus));
      expect(after.ids()).toEqual(ids);
    });

    test('with more events than a page holds, continues after a crash where it was', async () => {
      const memory = rememberingBus();
      const [later, late] = [await open(), await open()];
      const last = await later.append(...keysOfShard(1));
      const ids = await late.append(...keysOfShard(8));
      await append(...keysOfShard(5));
      await drain(publisherOn(database.pool, memory.bus, SMALL));
      expect(memory.ids()).toHaveLength(5);
      await late.end('commit');
      const dying = publisherOn(database.pool, memory.bus, SMALL);
      for (let nth = 0; nth < 3; nth += 1) {
        await dying.step(true);
        await dying.finished();
      }
      // Its last page of three is not recorded.
      expect(memory.ids().slice(5)).toEqual(ids.slice(0, 6));
      // The other relay may start anywhere.
      await later.end('commit');
      await drain(publisherOn(database.pool, memory.bus, SMALL));
      expect(memory.ids().slice(11)).toEqual([...last, ...ids.slice(3)]);
    });

    test('is published although it began after all other transactions had ended', async () => {
      const memory = rememberingBus();
      const publisher = publisherOn(database.pool, memory.bus);
      const [older, newer] = [await open(), await open()];
      // The snapshot of the read does not list the newer one, because no greater number has ended.
      await older.append(...keysOfShard(1));
      const ids = await newer.append(...keysOfShard(1));
      await older.append(...keysOfShard(1));
      await older.end('commit');
      await drain(publisher);
      expect(memory.ids()).toHaveLength(2);
      await newer.end('commit');
      await drain(publisher);
      expect(memory.ids().slice(2)).toEqual(ids);
    });

    test('costs no read when it is rolled back', async () => {
      const memory = rememberingBus();
      const publisher = publisherOn(database.pool, memory.bus);
      const late = await open();
      await late.append(...keysOfShard(1));
      const ids = await append(...keysOfShard(1));
      await drain(publisher);
      await late.end('rollback');
      await drain(publisher);
      expect(memory.ids()).toEqual(ids);
    });

    test('has its number before its first position', async () => {
      const { pool, url, migratorUrl } = database;
      const migrator = new pg.Client({ connectionString: migratorUrl });
      await migrator.connect();
      // Blocks an append at the moment at which it has drawn a position.
      await migrator.query(`
      create function fraud.nextval(name text) returns bigint language plpgsql as $$
      declare position bigint := pg_catalog.nextval(name::regclass);
      begin
        perform pg_advisory_xact_lock_shared(4711);
        return position;
      end $$;
      select pg_advisory_lock(4711)`);
      const memory = rememberingBus();
      const publisher = publisherOn(pool, memory.bus);
      const [held = '', other = ''] = keysOfShard(2);
      const slow = new pg.Client({ connectionString: url });
      await slow.connect();
      await slow.query('set search_path to fraud, pg_catalog');
      try {
        const appending = appendEvents(slow, [testEvent(held)]);
        await until(async () => {
          const { rows } = await pool.query(
            `select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`,
          );
          return rows.length === 1;
        });
        await append(other);
        await drain(publisher);
        expect(memory.keys()).toEqual([other]);
        await migrator.query('select pg_advisory_unlock(4711)');
        await appending;
        await drain(publisher);
        expect(memory.keys()).toEqual([other, held]);
      } finally {
        await slow.end();
        await migrator.query('drop function fraud.nextval(text)');
        await migrator.end();
      }
    });
  });

  test('a database that was restored on another server is published completely, and no event twice', async () => {
    const { pool, migratorUrl } = database;
    const migrator = new pg.Client({ connectionString: migratorUrl });
    await migrator.connect();
    await migrator.query('set search_path to fraud');
    const memory = rememberingBus();
    await append(...keysOfShard(3));
    await drain(publisherOn(pool, memory.bus));
    // From the old server: a late transaction whose number is still in the future here, and a backlog.
    const [late = ''] = await append(...keysOfShard(1));
    await pool.query(`
    update outbox_progress set position = (select max(position) from events), version = version + 1,
           open = array['123456789012345'::xid8], open_after = array[(select max(position) - 1 from events)]
     where shard = ${SHARD}`);
    const backlog = await append(...keysOfShard(5));
    await migrator.query(
      `update events set written_by = '123456789012345' where event_id = any ('{${[late, ...backlog].join()}}')`,
    );
    await migrator.end();
    const publisher = publisherOn(pool, memory.bus, SMALL);
    await drain(publisher);
    expect(memory.ids().slice(3)).toEqual([late, ...backlog]);
    const next = await append(...keysOfShard(1));
    await drain(publisher);
    expect(memory.ids().slice(9)).toEqual(next);
  });
});
