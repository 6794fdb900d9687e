import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { killReplicas } from '../../../test/support/processing-kills/replicas.ts';
import { killProcessing } from '../../../test/support/processing-kills/run.ts';
import { SCENARIOS } from '../../../test/support/processing-kills/scenarios.ts';
import { runTrial } from '../../../test/support/processing-kills/trial.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { ask, exchangeWith, newReturn, newShop, runDeps, runDue, triggersOf } from './testing.ts';

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
    'at any await, whatever the outcomes, loses nothing and doubles nothing',
    async () => {
      const report = await killProcessing({ pool: db.pool, points: POINTS, seed: SEED });
      expect(report).toMatchObject({ trials: POINTS, points: Math.min(POINTS, report.allPoints) });
      expect(report.deaths).toBeGreaterThanOrEqual(POINTS);
      // One run of the short form strikes some of them.
      expect(report.allPoints).toBeGreaterThan(1_000);
    },
    60_000 + POINTS * TRIAL_MS,
  );

  test('again and again is still survived', async () => {
    const deaths = [3, 9, 10, 13, 15, 9, 10, 12, 20].map((at) => ({ at, when: 'after' as const }));
    const scenario = SCENARIOS.find(({ name }) => name === 'exchange and refund');
    if (!scenario) throw new Error('there is no such scenario');
    expect(await runTrial(db.pool, scenario, deaths)).toMatchObject({ struck: deaths.length });
  });

  test('with SIGKILL, as replicas of their own, leaves its jobs to those that live', async () => {
    const report = await killReplicas({ db, seed: SEED, returns: 24, kills: 3 });
    expect(report.kills).toBe(3);
    // Nothing of a kill that met no job would be proven.
    expect(report.jobsInFlight).toBeGreaterThan(0);
  }, 120_000);
});

test('of many workers one has each job', async () => {
  const commerce = createEmbeddedCommerce(db.pool);
  const shopId = await newShop(db.pool);
  const returns = await Promise.all(
    Array.from({ length: 12 }, () => newReturn(db.pool, shopId, exchangeWith('refund'))),
  );
  for (const submitted of returns) await ask(db.pool, submitted);
  await Promise.all(Array.from({ length: 4 }, () => runDue(runDeps(db.pool, commerce))));
  for (const submitted of returns) {
    const { orders, refunds } = await commerce.ordersOf(submitted.id);
    expect([...orders, ...refunds]).toMatchObject([{ calls: 1 }, { calls: 1 }]);
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
  }
});
