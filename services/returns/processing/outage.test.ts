import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { type CutDatabase, cutDatabase } from '../../../test/kit/postgres/cut-database.ts';
import {
  claimOne,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { until } from '../../../test/kit/until.ts';
import { createPool } from '../../platform/postgres.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import type { CommerceProvider } from '../commerce/provider.ts';
import { resilient } from '../commerce/resilient.ts';
import { type RunDeps, runJob } from './run.ts';

let db: TestDatabase;
let proxy: CutDatabase;
/** The pool of the process under test. */
let pool: pg.Pool;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  proxy = await cutDatabase(db.url);
  pool = createPool(proxy.url, { max: 4 });
});
afterAll(async () => {
  await pool.end();
  await proxy.close();
  await db.drop();
});
beforeEach(() => proxy.mend());

const never = new AbortController().signal;

interface Counted {
  readonly failures: number;
  readonly failing_since: Date | null;
  readonly takeovers: number;
  readonly state: string;
}

async function jobOf(of: Return): Promise<Counted> {
  const { rows } = await db.pool.query<Counted>(
    `select failures, failing_since, takeovers, state from processing_jobs
      where shop_id = $1 and return_id = $2 order by id desc limit 1`,
    [of.shopId, of.id],
  );
  if (!rows[0]) throw new Error('there is no job');
  return rows[0];
}

/** Runs a job until the database is cut off, repairs the database, and waits until the run has released the job. */
async function runThroughOutage(deps: RunDeps): Promise<void> {
  const isCut = new Promise<void>((done) => {
    const { logger } = deps;
    const warn = () => done();
    Object.assign(deps, { logger: { ...logger, warn, info: () => {} } });
  });
  const running = runJob(deps, await claimOne(db.pool), never);
  await isCut;
  proxy.mend();
  await running;
}

async function untilClosed(deps: RunDeps, of: Return): Promise<void> {
  await until(async () => {
    await runDue(deps);
    return (await reload(db.pool, of)).state === ReturnState.CLOSED;
  });
}

const embedded = () => resilient(createEmbeddedCommerce(pool));
const cases: [string, () => CommerceProvider][] = [
  [
    'while the provider writes its ledger',
    () => {
      const provider = embedded();
      return {
        ...provider,
        create: (...words) => {
          proxy.cut();
          return provider.create(...words);
        },
      };
    },
  ],
  [
    'for a moment, while the provider writes its ledger',
    () => {
      const provider = embedded();
      return {
        ...provider,
        async create(...words) {
          proxy.cut();
          try {
            return await provider.create(...words);
          } finally {
            proxy.mend();
          }
        },
      };
    },
  ],
  [
    'after the provider acted, before that is recorded',
    () => {
      const provider = embedded();
      return {
        ...provider,
        async create(...words) {
          const made = await provider.create(...words);
          proxy.cut();
          return made;
        },
      };
    },
  ],
];

describe('an outage of our own database', () => {
  test.each(cases)('does not count as an attempt: %s', async (_, provider) => {
    const of = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, of);
    await runThroughOutage(runDeps(pool, provider()));
    expect(await jobOf(of)).toEqual({
      failures: 0,
      failing_since: null,
      takeovers: 0,
      state: 'queued',
    });

    await untilClosed(runDeps(pool, embedded()), of);
    const { refunds } = await createEmbeddedCommerce(db.pool).ordersOf(of.id);
    expect(refunds).toHaveLength(1);
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
  });

  test('never fails a return, also when it is longer than the time limit of retries', async () => {
    const of = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, of);
    const cutting = (cases[0]?.[1] ?? embedded)();
    await runThroughOutage(runDeps(pool, cutting));
    // Pretends that the first failure of the provider was long ago, too.
    await db.pool.query(
      `update processing_jobs set failing_since = now() - interval '2 days', due_at = now()
        where shop_id = $1 and return_id = $2`,
      [of.shopId, of.id],
    );
    await runThroughOutage(runDeps(pool, cutting));
    expect(await jobOf(of)).toMatchObject({ state: 'queued', failures: 0 });
    await untilClosed(runDeps(pool, embedded()), of);
  });
});

describe('an outage of the destinations service', () => {
  test('does not count as a failure, and no money moves before it ends', async () => {
    const shop = await newShop(db.pool, { restockMode: RestockMode.WEBHOOK });
    const of = await newReturn(db.pool, shop, { destinationId: 11n });
    await requestProcessing(db.pool, of);
    const unavailable = {
      getDestination: () => Promise.reject(new ConnectError('no', Code.Unavailable)),
    };
    const commerce = createEmbeddedCommerce(db.pool);
    const deps = { ...runDeps(db.pool, commerce), destinations: unavailable };
    await runJob(deps, await claimOne(db.pool), never);
    expect(await jobOf(of)).toMatchObject({ state: 'queued', failures: 0, failing_since: null });
    expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
    await untilClosed(runDeps(db.pool, commerce), of);
  });
});
