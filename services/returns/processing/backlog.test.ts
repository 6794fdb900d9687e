import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { newReturn, newShop, requestProcessing } from '../../../test/kit/services/processing.ts';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import type { Telemetry } from '../../platform/telemetry.ts';
import { measureBacklog } from './backlog.ts';

let db: TestDatabase;
let telemetry: Telemetry;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  telemetry = await testTelemetry();
});
afterAll(async () => {
  await telemetry.stop();
  await db.drop();
});

const HOUR_S = 3_600;

async function oldestAge(): Promise<number | undefined> {
  const text = await (await fetch(telemetry.metricsUrl)).text();
  const found = /^processing_oldest_age_seconds(?:\{[^}]*\})? (\S+)/m.exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
}

test('the age of the oldest waiting return is measured, also after failed attempts', async () => {
  const backlog = measureBacklog({ pool: db.pool, meter: telemetry.meter });
  expect(await oldestAge()).toBe(0);
  const shopId = await newShop(db.pool);
  const [older, newer] = [await newReturn(db.pool, shopId), await newReturn(db.pool, shopId)];
  for (const one of [older, newer]) await requestProcessing(db.pool, one);
  await db.pool.query(
    `update processing_jobs set queued_at = now() - interval '1 hour', due_at = now() + interval '1 s'
      where shop_id = $1 and return_id = $2`,
    [shopId, older.id],
  );
  expect(await oldestAge()).toBeGreaterThanOrEqual(HOUR_S);
  await db.pool.query(
    `update processing_jobs set state = 'done', finished_at = now() where return_id = $1`,
    [older.id],
  );
  expect(await oldestAge()).toBeLessThan(HOUR_S);
  await backlog.stop();
});
