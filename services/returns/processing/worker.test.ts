import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  claimOne,
  creating,
  endLeases,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  silent,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { until } from '../../../test/kit/until.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { resilient } from '../commerce/resilient.ts';
import { MAX_JOBS_OF_SHOP, RETRY_BACKOFF, releaseJob } from './jobs.ts';
import { purgeJobs } from './purge.ts';
import { runJob } from './run.ts';
import { startProcessingWorker } from './worker.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

function startWorker() {
  const deps = runDeps(db.pool, resilient(createEmbeddedCommerce(db.pool)));
  const run = (job: Parameters<typeof runJob>[1], signal: AbortSignal) => runJob(deps, job, signal);
  return startProcessingWorker({ pool: db.pool, logger: silent, run });
}

async function isClosed(of: Return): Promise<boolean> {
  return (await reload(db.pool, of)).state === ReturnState.CLOSED;
}

async function untilClosed(returns: readonly Return[]): Promise<void> {
  for (const one of returns) await until(() => isClosed(one));
}

async function untilFailed(of: Return): Promise<void> {
  await until(async () => (await triggersOf(db.pool, of)).includes('return.processing.failed'));
}

describe('the processing worker', () => {
  test('processes at once when woken, more returns than fit at the same time', async () => {
    const shopId = await newShop(db.pool);
    const returns = await Promise.all(Array.from({ length: 20 }, () => newReturn(db.pool, shopId)));
    const worker = startWorker();
    await Promise.all(returns.map((one) => requestProcessing(db.pool, one)));
    worker.wake();
    await untilClosed(returns);
    await worker.stop();
  });

  test('runs a job that another replica queued', async () => {
    const worker = startWorker();
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    await untilClosed([submitted]);
    await worker.stop();
  });

  test('ends every started step when it is stopped', async () => {
    const shopId = await newShop(db.pool);
    const returns = await Promise.all(Array.from({ length: 8 }, () => newReturn(db.pool, shopId)));
    await Promise.all(returns.map((one) => requestProcessing(db.pool, one)));
    await startWorker().stop();
    const { rows } = await db.pool.query("select from processing_jobs where state = 'running'");
    expect(rows).toEqual([]);
    const next = startWorker();
    await untilClosed(returns);
    await next.stop();
  });
});

test('a provider that hangs delays no other shop', async () => {
  const [slow, sound] = [await newShop(db.pool), await newShop(db.pool)];
  const waiting = await Promise.all(Array.from({ length: 40 }, () => newReturn(db.pool, slow)));
  for (const one of waiting) await requestProcessing(db.pool, one);
  const others = await Promise.all(Array.from({ length: 5 }, () => newReturn(db.pool, sound)));
  for (const one of others) await requestProcessing(db.pool, one);
  const embedded = createEmbeddedCommerce(db.pool);
  const { promise: end, resolve } = Promise.withResolvers<void>();
  let mostOpen = 0;
  let open = 0;
  const hanging = creating(embedded, 'refund', async (request, signal) => {
    if (request.shopId === slow) {
      open += 1;
      mostOpen = Math.max(mostOpen, open);
      await end;
      open -= 1;
    }
    return embedded.create(request, signal);
  });
  const deps = runDeps(db.pool, hanging);
  const run = (job: Parameters<typeof runJob>[1], signal: AbortSignal) => runJob(deps, job, signal);
  const worker = startProcessingWorker({ pool: db.pool, logger: silent, run });
  await untilClosed(others);
  await until(() => open === MAX_JOBS_OF_SHOP);
  resolve();
  await untilClosed(waiting);
  expect(mostOpen).toBe(MAX_JOBS_OF_SHOP);
  await worker.stop();
});

describe('a job that cannot be run', () => {
  test('because it cannot be read fails, and the other jobs run', async () => {
    const shopId = await newShop(db.pool);
    const [broken, sound] = [await newReturn(db.pool, shopId), await newReturn(db.pool, shopId)];
    await requestProcessing(db.pool, broken);
    await requestProcessing(db.pool, sound);
    await db.pool.query(
      "update processing_jobs set actor = '\\xff' where shop_id = $1 and return_id = $2",
      [shopId, broken.id],
    );
    const worker = startWorker();
    await untilClosed([sound]);
    await untilFailed(broken);
    await worker.stop();
    expect(await reload(db.pool, broken)).toMatchObject({
      state: ReturnState.OPEN,
      processing: false,
    });
  });

  test('because it crashes its worker every time fails after twenty takeovers', async () => {
    const of = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, of);
    // Claimed, and never finished or renewed.
    for (let worker = 0; worker <= 20; worker += 1) {
      expect((await claimOne(db.pool)).failureReason).toBeUndefined();
      await endLeases(db.pool);
    }
    const worker = startWorker();
    await untilFailed(of);
    await worker.stop();
    expect(await isClosed(of)).toBe(false);
  });

  test('is not a job that was only released', async () => {
    const of = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, of);
    for (let i = 0; i < 25; i += 1) await releaseJob(db.pool, await claimOne(db.pool));
    const worker = startWorker();
    await untilClosed([of]);
    await worker.stop();
  });
});

describe('finished jobs', () => {
  test('are kept for 30 days', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    const worker = startWorker();
    await untilClosed([submitted]);
    await worker.stop();
    expect(await purgeJobs(db.pool)).toBe(0);
    await db.pool.query(
      "update processing_jobs set finished_at = now() - interval '31 days' where shop_id = $1",
      [submitted.shopId],
    );
    expect(await purgeJobs(db.pool)).toBe(1);
  });
});

describe('the pause after a transient failure', () => {
  test.each([0, 1, 2, 3, 5, 6, 20])(
    'after %d others is the scheduled one, up to 20 %% more',
    (n) => {
      const scheduled = Math.min(2 ** n, 60) * 1_000;
      const delays = Array.from({ length: 100 }, () => RETRY_BACKOFF(n + 1));
      for (const delay of delays) {
        expect(delay).toBeGreaterThanOrEqual(scheduled);
        expect(delay).toBeLessThanOrEqual(scheduled * 1.2);
      }
      expect(new Set(delays).size).toBeGreaterThan(1);
    },
  );
});
