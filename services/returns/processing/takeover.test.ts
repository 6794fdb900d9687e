import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { withClockAhead } from '../../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  claimOne,
  newReturn,
  newShop,
  requestProcessing,
} from '../../../test/kit/services/processing.ts';
import { createLeaseWatch } from '../../platform/lease-watch.ts';
import { claimJobs, type Job, LEASE_MS, PROCESSING, untilNextDueMs } from './jobs.ts';
import { takeOverJobs } from './takeover.ts';

let db: TestDatabase;
let job: Job;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  await db.pool.query('delete from processing_jobs');
  await requestProcessing(db.pool, await newReturn(db.pool, await newShop(db.pool)));
  job = await claimOne(db.pool);
  await PROCESSING.renew(db.pool, [job]);
});

/** As if the clock of the database had been set: shifts the stored times. */
const setClock = (step: string) =>
  db.pool.query('update processing_jobs set due_at = due_at - $1::interval', [step]);

/** Takes over jobs as another process, which saw the leases before. */
async function otherProcess() {
  const watch = createLeaseWatch(LEASE_MS);
  const takeOver = async () => (await takeOverJobs(db.pool, watch)).taken;
  expect(await takeOver()).toBe(0);
  return { takeOver, later: () => withClockAhead(LEASE_MS, takeOver) };
}

test.each(['80 s', '-1 hour'])(
  'a step of the clock by %s takes no job from a live worker',
  async (step) => {
    const other = await otherProcess();
    await setClock(step);
    expect(await other.takeOver()).toBe(0);
    await PROCESSING.renew(db.pool, [job]);
    expect(await other.later()).toBe(0);
    expect(await PROCESSING.renew(db.pool, [job])).toEqual([]);
  },
);

test.each(['80 s', '-1 hour'])(
  'the job of a dead worker is taken over after a step of the clock by %s',
  async (step) => {
    const other = await otherProcess();
    await setClock(step);
    expect(await other.takeOver()).toBe(0);
    expect(await other.later()).toBe(1);
    expect(await PROCESSING.renew(db.pool, [job])).toEqual([job]);
    expect(await claimJobs(db.pool, 1)).toMatchObject([{ id: job.id }]);
  },
);

test('a lease that was renewed while its takeover was decided stays', async () => {
  await setClock('4 s');
  const late = { dead: <T>(leases: readonly T[]) => [...leases] };
  const client = await db.pool.connect();
  const renewing = {
    query: async (...args: Parameters<typeof client.query>) => {
      const result = await Reflect.apply(client.query, client, args);
      await PROCESSING.renew(db.pool, [job]);
      return result;
    },
  };
  expect((await takeOverJobs(renewing as unknown as typeof client, late)).taken).toBe(0);
  client.release();
});

test('a queued job does not wait for hours when the clock was set back', async () => {
  await db.pool.query("update processing_jobs set state = 'queued', lease_token = null");
  await setClock('-1 hour');
  await (await otherProcess()).takeOver();
  expect(await untilNextDueMs(db.pool)).toBeLessThanOrEqual(0);
});
