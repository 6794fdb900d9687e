import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { startBadEndpoint } from '../../../test/kit/processing-kills/endpoint.ts';
import { killReplicas, startReplica } from '../../../test/kit/processing-kills/replicas.ts';
import { killProcessing } from '../../../test/kit/processing-kills/run.ts';
import { SCENARIOS } from '../../../test/kit/processing-kills/scenarios.ts';
import {
  FORGETFUL_SHOPIFY_SCENARIOS,
  startBadShopify,
} from '../../../test/kit/processing-kills/shopify.ts';
import { runTrial } from '../../../test/kit/processing-kills/trial.ts';
import { randomOf } from '../../../test/kit/random.ts';
import {
  endLeases,
  exchangeWith,
  newReturn,
  newShop,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { until } from '../../../test/kit/until.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';

/** FAULT_POINTS=1000 is the full form; FAULT_SEED repeats a run. */
const POINTS = Number(process.env.FAULT_POINTS ?? 60);
const SEED = Number(process.env.FAULT_SEED ?? Date.now() % 1_000_000);
const TRIAL_MS = 3_000;

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

describe(`processing that is killed (seed ${SEED})`, () => {
  test(
    'at any await, with any outcomes, does every effect exactly once',
    async () => {
      const report = await killProcessing({ pool: db.pool, points: POINTS, seed: SEED });
      expect(report).toMatchObject({ trials: POINTS, points: Math.min(POINTS, report.allPoints) });
      expect(report.kills).toBeGreaterThanOrEqual(POINTS);
      // A short run covers only some points.
      expect(report.allPoints).toBeGreaterThan(1_000);
    },
    60_000 + POINTS * TRIAL_MS,
  );

  test.each([
    ['an endpoint that remembers keys', startBadEndpoint, false, SCENARIOS],
    ['an endpoint that forgets keys', startBadEndpoint, true, SCENARIOS],
    ['a Shopify shop that remembers keys', startBadShopify, false, SCENARIOS],
    ['a Shopify shop that forgets keys', startBadShopify, true, FORGETFUL_SHOPIFY_SCENARIOS],
  ])(
    'does every effect exactly once at %s, behind a bad network',
    async (_, start, forgets, scenarios) => {
      const commerce = await start({ random: randomOf(SEED), forgets });
      try {
        const points = Math.ceil(POINTS / 5);
        const report = await killProcessing({
          pool: db.pool,
          points,
          seed: SEED,
          commerce,
          scenarios,
        });
        expect(report.trials).toBeGreaterThanOrEqual(points);
        expect(report.kills).toBeGreaterThanOrEqual(points);
      } finally {
        await commerce.stop();
      }
    },
    60_000 + POINTS * TRIAL_MS,
  );

  test('several times does not change the result', async () => {
    const kills = [3, 9, 10, 13, 15, 9, 10, 12, 20].map((at) => ({ at, when: 'after' as const }));
    const scenario = SCENARIOS.find(({ name }) => name === 'exchange and refund');
    if (!scenario) throw new Error('there is no such scenario');
    expect(await runTrial(db.pool, scenario, kills)).toMatchObject({ kills: kills.length });
  });

  test('with SIGKILL, as separate replicas, leaves its jobs to the running ones', async () => {
    const report = await killReplicas({ db, seed: SEED, returns: 24, kills: 3 });
    expect(report.kills).toBe(3);
    // A kill that hits no job would prove nothing.
    expect(report.jobsInFlight).toBeGreaterThan(0);
  });
});

const DAY_MS = 86_400_000;

test.each([3 * DAY_MS, -3 * DAY_MS])(
  'a replica whose clock is %d ms ahead retries no job early and loses none',
  async (aheadMs) => {
    const commerce = createEmbeddedCommerce(db.pool);
    const shopId = await newShop(db.pool, { processingRetryMinutes: 600 });
    const waiting = await newReturn(db.pool, shopId);
    const sound = await newReturn(db.pool, shopId);
    await commerce.failNext({ returnId: waiting.id, kind: 'passing', times: 1 });
    const replica = await startReplica(db.url, { callMs: 0, retryS: 300, aheadMs });
    try {
      await requestProcessing(db.pool, waiting);
      await until(async () => (await failuresOf(waiting)) === 1);
      await requestProcessing(db.pool, sound);
      await until(async () => (await triggersOf(db.pool, sound)).includes('return.closed'));
      // Since then the worker has searched for due jobs, so it would have run the retry if it were due.
      expect(await failuresOf(waiting)).toBe(1);
      expect((await commerce.ordersOf(waiting.id)).refunds).toEqual([]);
    } finally {
      await replica.kill();
    }
    await endLeases(db.pool);
    await runDue(runDeps(db.pool, commerce));
    expect((await commerce.ordersOf(waiting.id)).refunds).toMatchObject([{ calls: 1 }]);
  },
  60_000,
);

async function failuresOf(of: Return): Promise<number | undefined> {
  const { rows } = await db.pool.query<{ failures: number }>(
    "select failures from processing_jobs where shop_id = $1 and return_id = $2 and state = 'queued'",
    [of.shopId, of.id],
  );
  return rows[0]?.failures;
}

test('of many workers one has each job', async () => {
  const commerce = createEmbeddedCommerce(db.pool);
  const shopId = await newShop(db.pool);
  const returns = await Promise.all(
    Array.from({ length: 12 }, () => newReturn(db.pool, shopId, exchangeWith('refund'))),
  );
  for (const submitted of returns) await requestProcessing(db.pool, submitted);
  await Promise.all(Array.from({ length: 4 }, () => runDue(runDeps(db.pool, commerce))));
  for (const submitted of returns) {
    const { orders, refunds } = await commerce.ordersOf(submitted.id);
    expect([...orders, ...refunds]).toMatchObject([{ calls: 1 }, { calls: 1 }]);
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
  }
});
