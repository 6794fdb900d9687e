import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { appendEvents } from '../outbox/append.ts';
import { maintainPartitions, type PartitionedTable } from './partitions.ts';
import { inTransaction } from './postgres.ts';

describe('event partitions', () => {
  let database: TestDatabase;
  let migrator: pg.Client;
  beforeAll(async () => {
    database = await createTestDatabase('carts');
    migrator = new pg.Client({ connectionString: database.migratorUrl });
    await migrator.connect();
    await migrator.query('set search_path to carts');
  });
  afterAll(async () => {
    await migrator.end();
    await database.drop();
  });

  const partitions = async () => {
    const { rows } = await migrator.query<{ name: string }>(
      `select relname as name from pg_class
       where relnamespace = 'carts'::regnamespace and relname ~ '^events_[0-9]{8}$' order by 1`,
    );
    return rows.map((row) => row.name);
  };
  const maintain = () => maintainPartitions(database.pool, { table: 'event', retentionDays: 7 });
  const nameOf = (daysFromToday: number) => {
    const day = new Date(Date.now() + daysFromToday * 86_400_000);
    return `events_${day.toISOString().slice(0, 10).replaceAll('-', '')}`;
  };
  const makePast = async (daysAgo: number) => {
    const name = nameOf(-daysAgo);
    await migrator.query(
      `create table ${name} partition of events
       for values from (current_date - ${daysAgo}) to (current_date - ${daysAgo - 1})`,
    );
    return name;
  };

  test('today and the coming days have one, created for a role that owns no table', async () => {
    await migrator.query(`drop table ${nameOf(2)}`);
    expect(await maintain()).toEqual({ made: 1, dropped: 0 });
    expect(await partitions()).toEqual([0, 1, 2, 3].map(nameOf));
    expect(await maintain()).toEqual({ made: 0, dropped: 0 });
  });

  test('are dropped past the retention, except while one of their events is not published', async () => {
    const [kept, waiting, dropped] = [await makePast(7), await makePast(9), await makePast(10)];
    const insert = (daysAgo: number, position: number) =>
      migrator.query(
        `insert into events (shop_id, day, position, event_id, trigger, key, traceparent, occurred_at, value, shard, written_by)
         values (1, current_date - $1::int, $2, gen_random_uuid(), 't', 'k', '', now(), '', 0, pg_current_xact_id())`,
        [daysAgo, position],
      );
    await insert(10, 1);
    await migrator.query('update outbox_progress set position = 1');
    await insert(9, 2);
    expect(await maintain()).toEqual({ made: 0, dropped: 1 });
    expect(await partitions()).toEqual(expect.arrayContaining([kept, waiting]));
    expect(await partitions()).not.toContain(dropped);

    await migrator.query('update outbox_progress set position = 2');
    expect(await maintain()).toEqual({ made: 0, dropped: 1 });
    expect(await partitions()).not.toContain(waiting);
  });

  test('an insert never fails because a partition is missing', async () => {
    await migrator.query(`drop table ${nameOf(0)}`);
    const actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });
    const [id] = await inTransaction(database.pool, (tx) =>
      appendEvents(tx, [{ trigger: 'cart.created', shopId: 1n, key: '1:1', actor }]),
    );
    const { rows } = await database.pool.query('select event_id from events');
    expect(rows).toEqual([{ event_id: id }]);
    // A day with rows in the default partition cannot get its own, which is not an error.
    expect(await maintain()).toMatchObject({ made: 0 });
  });

  test('the service may add events and not change them', async () => {
    await expect(database.pool.query('update events set trigger = trigger')).rejects.toThrow(
      'permission denied',
    );
    await expect(database.pool.query('delete from events')).rejects.toThrow('permission denied');
    await expect(database.pool.query(`drop table ${nameOf(1)}`)).rejects.toThrow('must be owner');
  });
});

describe('partitions of handled events', () => {
  let database: TestDatabase;
  let migrator: pg.Client;
  beforeAll(async () => {
    database = await createTestDatabase('webhooks');
    migrator = new pg.Client({ connectionString: database.migratorUrl });
    await migrator.connect();
    await migrator.query('set search_path to webhooks');
  });
  afterAll(async () => {
    await migrator.end();
    await database.drop();
  });

  const maintain = () =>
    maintainPartitions(database.pool, { table: 'consumed', retentionDays: 14 });
  /** The partition of a day in the past, with one event that was handled so many days ago. */
  const makePast = async (daysAgo: number, handledDaysAgo: number) => {
    const name = `consumed_events_${dayText(daysAgo)}`;
    await migrator.query(
      `create table ${name} partition of consumed_events
       for values from (current_date - ${daysAgo}) to (current_date - ${daysAgo - 1})`,
    );
    await migrator.query(
      `insert into consumed_events
       values (1, gen_random_uuid(), 'c', current_date - ${daysAgo}, now() - ${handledDaysAgo} * interval '1 day')`,
    );
    return name;
  };
  const exists = async (name: string) => {
    const { rows } = await migrator.query('select to_regclass($1) is not null as yes', [name]);
    return rows[0]?.yes;
  };

  test('yesterday, today and the coming days have one', async () => {
    for (const daysAgo of [1, 0, -1, -2, -3]) {
      expect(await exists(`consumed_events_${dayText(daysAgo)}`)).toBe(true);
    }
    await migrator.query(`drop table consumed_events_${dayText(-2)}`);
    expect(await maintain()).toEqual({ made: 1, dropped: 0 });
  });

  test('a day is dropped when all its events were handled longer ago than the retention', async () => {
    const kept = [await makePast(14, 14), await makePast(16, 3)];
    const dropped = await makePast(17, 17);
    expect(await maintain()).toEqual({ made: 0, dropped: 1 });
    for (const name of kept) expect(await exists(name)).toBe(true);
    expect(await exists(dropped)).toBe(false);
  });

  test('an event of a day without a partition is remembered until it was handled long ago', async () => {
    await migrator.query(
      `insert into consumed_events
       select 2, gen_random_uuid(), 'c', current_date - 400, now() - n * interval '1 day' from unnest(array[3, 15]) as n`,
    );
    await maintain();
    const { rowCount } = await database.pool.query('select from consumed_events where shop_id = 2');
    expect(rowCount).toBe(1);
  });
});

function dayText(daysAgo: number): string {
  const day = new Date(Date.now() - daysAgo * 86_400_000);
  return day.toISOString().slice(0, 10).replaceAll('-', '');
}

describe('partitions traffic', () => {
  let db: TestDatabase;

  beforeAll(async () => {
    db = await createTestDatabase('returns');
    const migrator = new pg.Client({ connectionString: db.migratorUrl });
    await migrator.connect();
    await migrator.query('set search_path to returns');
    for (const table of ['events', 'consumed_events']) {
      await migrator.query(
        `create table ${table}_20200101 partition of ${table} for values from ('2020-01-01') to ('2020-01-02')`,
      );
    }
    await migrator.end();
  });
  afterAll(() => db.drop());

  const TABLES: [PartitionedTable, string][] = [
    ['event', 'events'],
    ['consumed', 'consumed_events'],
  ];

  /** Reads the table again and again until the test stops it. Resolves after the last read. */
  function keepReading(table: string) {
    let isOver = false;
    const reading = (async () => {
      while (!isOver) await db.pool.query(`select from ${table} where day = current_date limit 1`);
    })();
    return () => {
      isOver = true;
      return reading;
    };
  }

  describe.each(TABLES)('the days of %s', (table, name) => {
    const maintain = () => maintainPartitions(db.pool, { table, retentionDays: 7 });

    test('are skipped while a long read uses them, and block no other reader', async () => {
      const stop = keepReading(name);
      await inTransaction(db.pool, async (tx) => {
        await tx.query(`select from ${name} limit 1`);
        await expect(maintain()).rejects.toMatchObject({ code: '55P03' });
        // Readers that waited behind the statement have finished while the long reader still reads.
        await stop();
      });
      expect((await maintain()).dropped).toBe(1);
    });
  });
});
