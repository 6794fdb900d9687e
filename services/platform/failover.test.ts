import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { actor, newReturn, newShop, reload } from '../../test/kit/services/processing.ts';
import { storeOf } from '../../test/kit/services/return-stores.ts';
import { createPool } from './postgres.ts';

let db: TestDatabase;
let migrator: pg.Client;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  migrator = new pg.Client({ connectionString: db.migratorUrl });
  await migrator.connect();
});
afterAll(async () => {
  await migrator.end();
  await db.drop();
});

/** The last values of all sequences of the schema. */
async function sequences(): Promise<Map<string, bigint>> {
  const { rows } = await migrator.query<{ name: string; at: string }>(
    `select sequencename as name, coalesce(last_value, start_value)::text as at from pg_sequences
      where schemaname = 'returns'`,
  );
  return new Map(rows.map(({ name, at }) => [name, BigInt(at)]));
}

/** The schema was written last on a timeline that is not that of the server, as after a promotion. */
async function promote(): Promise<void> {
  await migrator.query('update returns.server_timeline set timeline = timeline + 1');
}

/** Opens this many connections at once, as a process does at its start. */
async function connect(count: number): Promise<void> {
  const pool = createPool(db.url, { max: count });
  await Promise.all(Array.from({ length: count }, () => pool.query('select pg_sleep(0)')));
  await pool.end();
}

const GAP = 1_000_000n;

test('connections on the same timeline change no sequence', async () => {
  const before = await sequences();
  await connect(2);
  expect(await sequences()).toEqual(before);
});

test('the first of many connections on another timeline leaves one gap in every sequence', async () => {
  await newReturn(db.pool, await newShop(db.pool));
  const before = await sequences();
  await promote();
  await connect(8);
  const after = await sequences();
  expect([...after.keys()]).toEqual([...before.keys()]);
  expect(after.size).toBeGreaterThan(10);
  for (const [name, at] of after) {
    // Some ids have at most nine digits. Their gap is a thousandth of the rest.
    const gap = at - (before.get(name) ?? 0n);
    const isOneGap = gap > 999_000n && gap <= GAP;
    expect({ name, gap, isOneGap }).toEqual({ name, gap, isOneGap: true });
  }
});

test('the next revision of each return is above the lost ones, and those after it add one', async () => {
  const shopId = await newShop(db.pool);
  const [one, other] = [await newReturn(db.pool, shopId), await newReturn(db.pool, shopId)];
  const changed = async (of: typeof one) => {
    const by = { shopId, actor, returnId: of.id };
    await storeOf(db.pool).change(by, async (tx) => {
      await tx.query(
        'update returns set package_reference = package_reference || $3 where shop_id = $1 and id = $2',
        [shopId, of.id, 'x'],
      );
      return { value: undefined };
    });
    return (await reload(db.pool, of)).revision;
  };
  const known = await changed(one);
  await promote();
  await connect(1);
  const first = await changed(one);
  expect(first).toBeGreaterThanOrEqual(known + GAP);
  expect(first).toBeLessThan(2n ** 31n);
  expect(await changed(one)).toBe(first + 1n);
  await promote();
  await connect(1);
  expect(await changed(one)).toBeGreaterThan(first + 1n);
  expect(await changed(other)).toBeGreaterThan(first + GAP - 1n);
});
