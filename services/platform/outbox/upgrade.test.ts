import { randomUUID } from 'node:crypto';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createEmptyDatabase } from '../../../test/kit/database.ts';
import {
  appendTo,
  drain,
  publisherOn,
  rememberingBus,
  testEvent,
} from '../../../test/kit/events/outbox.ts';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { until } from '../../../test/kit/until.ts';
import { murmur2 } from '../bus/murmur2.ts';
import { migrate } from '../migrate.ts';
import { createPool } from '../postgres.ts';
import { SHARDS } from './append.ts';
import { backlogOf } from './store.ts';

// The statements of the previous release, which are prepared by name on each connection.

const OLD_APPEND = `
with given as materialized (
  select nextval('event_positions') as position, sorted.*
  from (
    select shop_id, event_id, trigger, key, occurred_at, shard,
           substring($6::bytea from (sum(bytes) over (order by n) - bytes)::integer + 1 for bytes) as value
    from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $7::integer[], $8::smallint[])
      with ordinality as u (shop_id, event_id, trigger, key, occurred_at, bytes, shard, n)
    order by n
  ) sorted
), stored as (
  insert into events (shop_id, day, position, event_id, trigger, key, traceparent, occurred_at, value)
  select shop_id, (now() at time zone 'utc')::date, position, event_id, trigger, key, $9, occurred_at, value
  from given
)
insert into outbox (shop_id, day, position, shard, key, bytes)
select shop_id, (now() at time zone 'utc')::date, position, shard, key, length(value) from given`;

const OLD_READ = `
select p.shard, p.shop_id, p.day, p.position, p.key, p.bytes, p.is_known, p.is_late, p.snapshot,
       e.position as found_at, e.event_id, e.trigger, e.traceparent, e.value
  from (
    select o.*, pg_current_snapshot()::text as snapshot,
           sum(case when is_known or is_late then 0 else o.bytes end)
             over (order by o.position) - o.bytes as bytes_before
      from unnest($1::smallint[], $2::bigint[], $7::pg_snapshot[]) as s (shard, after, seen)
     cross join lateral (
       select outbox.*, outbox.position = any ($3) or outbox.key = any ($4) as is_known,
              coalesce(not pg_visible_in_snapshot(outbox.written_by, s.seen)
                and outbox.written_by < pg_snapshot_xmax(pg_current_snapshot()), false) as is_late
         from outbox
        where outbox.shard = s.shard and outbox.position > s.after
        order by outbox.position limit $5
     ) o
  ) p
  left join lateral (
    select * from events
     where events.shop_id = p.shop_id and events.day = p.day and events.position = p.position
       and not p.is_known and not p.is_late and p.bytes_before < $6
     limit 1
  ) e on true
 order by p.position`;

const OLD_FORGET = `
delete from outbox o
using unnest($1::bigint[], $2::date[], $3::bigint[]) as done (shop_id, day, position)
where o.shop_id = done.shop_id and o.day = done.day and o.position = done.position`;

const OLD_BACKLOG = `
select count(*) as depth, extract(epoch from clock_timestamp() - min(created_at))::float8 as age from outbox`;

interface Pointer {
  shop_id: bigint;
  day: string;
  position: bigint;
  event_id: string;
}

/** Appends an event of each key, as the previous release does. */
async function appendOld(db: pg.Pool | pg.ClientBase, ...keys: string[]): Promise<string[]> {
  const ids = keys.map(() => randomUUID());
  const values = [
    ...[keys.map(() => 1n), ids, keys.map(() => 'return.updated'), keys],
    ...[keys.map(() => new Date()), Buffer.alloc(keys.length), keys.map(() => 1)],
    ...[keys.map((key) => murmur2(key) % SHARDS), ''],
  ];
  await db.query({ name: 'outbox-append', text: OLD_APPEND, values });
  return ids;
}

async function readOld(db: pg.Pool): Promise<Pointer[]> {
  const shards = Array.from({ length: SHARDS }, (_, shard) => shard);
  const after = shards.map(() => 0n);
  const values = [shards, after, [], [], 500, 1_000_000, shards.map(() => null)];
  return (await db.query<Pointer>({ name: 'outbox-read', text: OLD_READ, values })).rows;
}

async function forgetOld(db: pg.Pool, pointers: readonly Pointer[]): Promise<void> {
  const values = [
    pointers.map((one) => one.shop_id),
    pointers.map((one) => one.day),
    pointers.map((one) => one.position),
  ];
  await db.query({ name: 'outbox-forget', text: OLD_FORGET, values });
}

const idsOf = (pointers: readonly Pointer[]) => pointers.map((one) => one.event_id);

let database: Awaited<ReturnType<typeof createEmptyDatabase>>;
let folder: string;
/**
 * One pool for the previous release and one for this release. They do not share connections, because on one connection
 * a statement name always has the same text, and the releases have different texts.
 */
let pool: pg.Pool;
let current: pg.Pool;

const bring = async (...files: string[]): Promise<void> => {
  for (const file of files) {
    const from = fileURLToPath(new URL(`../migrations/outbox/${file}`, import.meta.url));
    copyFileSync(from, join(folder, file));
  }
  const schema = { name: 'carts', folder: pathToFileURL(`${folder}/`), capabilities: ['leases'] };
  await migrate({ databaseUrl: database.url, schemas: [schema as never] });
};
const upgrade = () => bring('0003_event_shards.sql', '0004_outbox_progress.sql');

beforeEach(async () => {
  database = await createEmptyDatabase();
  folder = mkdtempSync(join(tmpdir(), 'outbox-'));
  await bring('0001_events.sql', '0002_written_by.sql');
  const url = new URL(database.url);
  url.username = 'rms_carts';
  // One connection, so that statements prepared before the migration are used after it.
  pool = createPool(url.href, { max: 1 });
  current = createPool(url.href);
});

afterEach(async () => {
  await Promise.all([pool.end(), current.end()]);
  rmSync(folder, { recursive: true });
  await database.drop();
});

describe('processes of the previous release', () => {
  test('append and relay beside this one: no event is lost, keys stay in order', async () => {
    const memory = rememberingBus();
    const [done = '', a1 = '', b1 = ''] = await appendOld(pool, 'x', 'a', 'b');
    await forgetOld(pool, (await readOld(pool)).slice(0, 1));
    await upgrade();

    const [a2 = ''] = await appendOld(pool, 'a');
    const [a3 = '', b2 = ''] = await appendTo(current, testEvent('a'), testEvent('b'));
    // The old relay finds all of them, including events of this release.
    const pointers = await readOld(pool);
    expect(idsOf(pointers)).toEqual([a1, b1, a2, a3, b2]);
    expect((await pool.query(OLD_BACKLOG)).rows).toMatchObject([{ depth: 5n }]);
    // This release does not repeat events that the old relay has published.
    await forgetOld(pool, pointers.slice(0, 2));
    const publisher = publisherOn(current, memory.bus);
    await drain(publisher);
    expect(memory.published.map(({ headers }) => headers.event_id)).toEqual([a2, a3, b2]);
    expect(memory.published.map(({ headers }) => headers.event_id)).not.toContain(done);
    // And in the other direction.
    expect(await readOld(pool)).toEqual([]);
    const [a4 = ''] = await appendOld(pool, 'a');
    expect(idsOf(await readOld(pool))).toEqual([a4]);
    await forgetOld(pool, await readOld(pool));
    const last = await appendTo(current, testEvent('a'));
    await drain(publisher);
    expect(memory.published.map(({ headers }) => headers.event_id).slice(3)).toEqual(last);
    expect((await backlogOf(current)).depth).toBe(0);
  });

  test('an open transaction is waited for, and its events are published', async () => {
    const old = new pg.Client({ connectionString: pool.options.connectionString });
    await old.connect();
    await old.query('begin');
    const ids = await appendOld(old, 'a', 'b');
    const upgraded = upgrade();
    const admin = new pg.Client(database.url);
    await admin.connect();
    await until(async () => (await lockWaits(admin)) > 0);
    await admin.end();
    await old.query('commit');
    await upgraded;
    const memory = rememberingBus();
    await drain(publisherOn(current, memory.bus));
    expect(memory.published.map(({ headers }) => headers.event_id)).toEqual(ids);
    await old.end();
  });

  test('their events get the shard of their key, and a position drawn after the number of the transaction', async () => {
    await upgrade();
    const keys = ['', 'a', 'ab', 'abc', 'abcd', '7:12345', '1:größe', '日本語', randomUUID()];
    const { rows: hashed } = await pool.query<{ shard: number }>(
      'select outbox_shard(key) as shard from unnest($1::text[]) with ordinality as u (key, n) order by n',
      [keys],
    );
    expect(hashed.map(({ shard }) => shard)).toEqual(keys.map((key) => murmur2(key) % SHARDS));
    await appendOld(pool, 'a', 'b');
    const { rows } = await pool.query(
      'select key, shard, written_by is not null as "isNumbered" from events order by position',
    );
    expect(rows).toEqual(
      ['a', 'b'].map((key) => ({ key, shard: murmur2(key) % SHARDS, isNumbered: true })),
    );
    // The statement drew the first two.
    const { rows: first } = await pool.query('select min(position) as position from events');
    expect(first).toEqual([{ position: 3n }]);
  });

  test('days that have rows get no index, later days do', async () => {
    await appendOld(pool, 'a');
    await upgrade();
    const { rows } = await pool.query<{ indexed: string; count: bigint }>(
      `select exists (select from pg_indexes i where i.tablename = c.relname and i.indexdef like '%(shard, "position")') as indexed,
              count(*) from pg_inherits join pg_class c on c.oid = inhrelid
        where inhparent = 'events'::regclass group by 1 order by 1`,
    );
    expect(rows).toEqual([
      { indexed: false, count: 1n },
      { indexed: true, count: 4n },
    ]);
    const { rows: made } = await pool.query('select create_event_partitions(5) as made');
    expect(made).toEqual([{ made: 2 }]);
    const { rows: after } = await pool.query(
      `select count(*) from pg_indexes where indexdef like '%(shard, "position")' and tablename ~ '^events_2'`,
    );
    expect(after).toEqual([{ count: 5n }]);
  });
});
