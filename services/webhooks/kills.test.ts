import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { killDelivery } from '../../test/kit/delivery-kills/run.ts';
import { testTelemetry } from '../../test/kit/services/telemetry.ts';
import type { Telemetry } from '../platform/telemetry/telemetry.ts';

/** FAULT_POINTS=1000 is every point; FAULT_SEED repeats a run. */
const POINTS = Number(process.env.FAULT_POINTS ?? 20);
const SEED = Number(process.env.FAULT_SEED ?? Date.now() % 1_000_000);
const TRIAL_MS = 4_000;

let db: TestDatabase;
let telemetry: Telemetry;
beforeAll(async () => {
  db = await createTestDatabase('webhooks');
  telemetry = await testTelemetry();
});
afterAll(async () => {
  await telemetry.stop();
  await db.drop();
});

test(
  `killed at any await, matching, sending, recording, retrying and replaying lose and double nothing (seed ${SEED})`,
  async () => {
    const report = await killDelivery({ pool: db.pool, telemetry, points: POINTS, seed: SEED });
    expect(report.allPoints).toBeGreaterThan(100);
    // Steps vary a little, so the kill may happen after the end.
    expect(report.killed).toBeGreaterThan(Math.min(POINTS, report.allPoints) * 0.8);
  },
  60_000 + POINTS * TRIAL_MS,
);
