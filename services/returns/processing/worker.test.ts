import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  claimOne,
  creating,
  endLeases,
  leaseOne,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  silent,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { until } from '../../../test/kit/until.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { resilient } from '../../commerce/providers.ts';
import type { Worker } from '../../platform/process/worker.ts';
import { purgeJobs } from '../retention/purge.ts';
import { type Job, MAX_JOBS_OF_SHOP, releaseJob } from './jobs.ts';
import { runJob } from './run.ts';
import { type JobPlaces, startProcessingWorker } from './worker.ts';

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

  describe('and a call that queues a job', () => {
    /** Whether code runs inside of a call. */
    const inCall = new AsyncLocalStorage<boolean>();
    const running: Worker[] = [];
    afterEach(async () => {
      await Promise.all(running.splice(0).map((worker) => worker.stop()));
      await db.pool.query(
        "update processing_jobs set state = 'failed', finished_at = now() where finished_at is null",
      );
    });

    /** A worker whose jobs run until `endOne`, once it has found that no job is due. */
    async function freeWorker() {
      const seen: (Job & { isInCall: boolean })[] = [];
      const ends: (() => void)[] = [];
      const worker = startProcessingWorker({
        pool: db.pool,
        logger: silent,
        run: (job, signal) => {
          seen.push({ ...job, isInCall: inCall.getStore() ?? false });
          return new Promise((resolve) => {
            const end = () => resolve('ended');
            ends.push(end);
            if (signal.aborted) end();
            signal.addEventListener('abort', end);
          });
        },
      });
      running.push(worker);
      await until(() => mayLease(worker));
      const queue = (of: Return) =>
        inCall.run(true, () => requestProcessing(db.pool, of, {}, worker));
      return { worker, seen, queue, endOne: () => ends.shift()?.() };
    }

    async function mayLease({ queueing }: JobPlaces): Promise<boolean> {
      let may = false;
      await queueing(async (now) => {
        may = now;
        return {};
      });
      return may;
    }

    async function newReturns(count: number): Promise<Return[]> {
      const shopId = await newShop(db.pool);
      return Promise.all(Array.from({ length: count }, () => newReturn(db.pool, shopId)));
    }

    test('have the job run when the call returns', async () => {
      const { worker, seen } = await freeWorker();
      const [of] = await newReturns(1);
      const details = { pallet: { value: { case: 'text' as const, value: 'P-7' } } };
      await requestProcessing(db.pool, of as Return, { details, source: 'warehouse' }, worker);
      expect(seen).toMatchObject([
        {
          returnId: of?.id,
          details: { pallet: 'P-7' },
          source: 'warehouse',
          actor: { id: 'u1' },
          failures: 0,
          isCancellation: false,
          failureReason: undefined,
        },
      ]);
    });

    test('do not share the context of the call', async () => {
      const { seen, queue } = await freeWorker();
      const [of] = await newReturns(1);
      await queue(of as Return);
      expect(seen).toMatchObject([{ isInCall: false }]);
    });

    test('need no place when nothing is queued', async () => {
      const { seen, queue } = await freeWorker();
      const [of, other] = await newReturns(2);
      await queue(of as Return);
      for (let call = 0; call < 30; call += 1) await queue(of as Return);
      await queue(other as Return);
      expect(seen.map(({ returnId }) => returnId)).toEqual([of?.id, other?.id]);
    });

    test('let jobs that wait go first', async () => {
      const { worker, seen, queue, endOne } = await freeWorker();
      const places = (await Promise.all(Array.from({ length: 6 }, () => newReturns(4)))).flat();
      for (const of of places) await queue(of);
      expect(seen).toHaveLength(24);
      const [waiting, later] = [...(await newReturns(1)), ...(await newReturns(1))];
      await queue(waiting as Return);
      worker.wake();
      await nextTurn();
      endOne();
      await nextTurn();
      await queue(later as Return);
      await until(() => seen.length > 24);
      expect(seen.slice(24).map(({ returnId }) => returnId)).toEqual([waiting?.id]);
    });

    test('run at most four jobs of a shop, and leave places for others', async () => {
      const { seen, queue } = await freeWorker();
      for (const of of await newReturns(6)) await queue(of);
      expect(seen).toHaveLength(MAX_JOBS_OF_SHOP);
      // The other two wait. A new one does not overtake them.
      const [other] = await newReturns(1);
      await queue(other as Return);
      await until(() => seen.some(({ returnId }) => returnId === other?.id));
    });

    test('of one shop at the same moment get at most four leases', async () => {
      // So that the calls are not held up by the start of their connections.
      const warm = Array.from({ length: 10 }, () => db.pool.query('select pg_sleep(0.05)'));
      const [returns] = await Promise.all([newReturns(10), ...warm]);
      const results = await Promise.allSettled(returns.map((of) => leaseOne(db.pool, of)));
      const leased = results.filter(({ status }) => status === 'fulfilled');
      expect(leased).toHaveLength(MAX_JOBS_OF_SHOP);
    });

    test('count the jobs that other replicas run for the shop', async () => {
      const replicas = [await freeWorker(), await freeWorker()];
      const returns = await newReturns(6);
      for (const [nth, of] of returns.entries()) await replicas[nth % 2]?.queue(of);
      expect(replicas.flatMap(({ seen }) => seen)).toHaveLength(MAX_JOBS_OF_SHOP);
    });

    test('leave the job to another replica while the worker stops', async () => {
      const { worker, seen, queue } = await freeWorker();
      const stopped = worker.stop();
      const [of] = await newReturns(1);
      await queue(of as Return);
      await stopped;
      expect(seen).toEqual([]);
      expect(await claimOne(db.pool)).toMatchObject({ returnId: of?.id });
    });

    test('are awaited by a stop, and so are their jobs', async () => {
      const [{ worker, seen }, other] = [await freeWorker(), await freeWorker()];
      const [of] = await newReturns(1);
      const job = await leaseOne(db.pool, of as Return);
      const { promise, resolve } = Promise.withResolvers<void>();
      const call = worker.queueing(() => promise.then(() => ({ queued: job })));
      let isStopped = false;
      const stopped = worker.stop().then(() => {
        isStopped = true;
      });
      // A worker without a call does not need longer than this.
      await other.worker.stop();
      await newReturns(1);
      expect(isStopped).toBe(false);
      resolve();
      await Promise.all([call, stopped]);
      expect(seen).toHaveLength(1);
    });

    test('leave places for due jobs, however many wait', async () => {
      const { worker, seen } = await freeWorker();
      const { promise, resolve } = Promise.withResolvers<void>();
      const wait = async () => {
        await promise;
        return {};
      };
      const calls = Array.from({ length: 30 }, () => worker.queueing(wait));
      const [of] = await newReturns(1);
      await requestProcessing(db.pool, of as Return);
      try {
        await until(() => seen.length === 1);
      } finally {
        resolve();
      }
      await Promise.all(calls);
    });

    test('lose no job when the process dies after the commit', async () => {
      const of = await newReturn(db.pool, await newShop(db.pool));
      await leaseOne(db.pool, of);
      running.push(startWorker());
      await untilClosed([of]);
    });
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
