import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { newReturn, newShop } from '../../test/kit/services/processing.ts';
import { purge } from './purge.ts';

let db: TestDatabase;
let of: Return;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  of = await newReturn(db.pool, await newShop(db.pool));
});

const EVENT_DAYS = 7;

async function addKey(operation: string, days: number): Promise<void> {
  await db.pool.query(
    `insert into idempotency_keys (shop_id, operation, key, request_hash, result_id, created_at)
     values ($1, $2, $3, '', $4, now() - $5 * interval '1 day')`,
    [of.shopId, operation, `${operation} ${days}`, of.id, days],
  );
}

async function addSnapshot(revision: number, days: number): Promise<void> {
  await db.pool.query(
    `insert into snapshots (shop_id, return_id, revision, value, created_at)
     values ($1, $2, $3, '', now() - $4 * interval '1 day')`,
    [of.shopId, of.id, revision, days],
  );
}

describe('the purge', () => {
  test('removes keys after 90 days, but never those of submissions and shipments', async () => {
    await addKey('RecordLabel', 89);
    await addKey('RecordLabel', 91);
    await addKey('SubmitReturn', 4_000);
    await addKey('RecordPartnerShipment', 4_000);
    expect(await purge(db.pool, EVENT_DAYS)).toBe(1);
    const { rows } = await db.pool.query<{ key: string }>(
      `select key from idempotency_keys where shop_id = $1 and key like '% %' order by key`,
      [of.shopId],
    );
    expect(rows.map((row) => row.key)).toEqual([
      'RecordLabel 89',
      'RecordPartnerShipment 4000',
      'SubmitReturn 4000',
    ]);
  });

  test('keeps large snapshots two days longer than their events', async () => {
    await addSnapshot(1, EVENT_DAYS + 1.9);
    await addSnapshot(2, EVENT_DAYS + 2.1);
    expect(await purge(db.pool, EVENT_DAYS)).toBe(1);
    const { rows } = await db.pool.query(
      'select revision from snapshots where shop_id = $1 and return_id = $2',
      [of.shopId, of.id],
    );
    expect(rows).toEqual([{ revision: 1n }]);
  });
});
