import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import {
  ApplyAssessmentsRequestSchema,
  ApplyAssessmentsResponseSchema,
  CheckLineItemsResponseSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createEmbeddedCommerce } from '../../services/commerce/embedded.ts';
import type { HandOverDeps } from '../../services/dispositions/hand-over.ts';
import { inspect } from '../../services/dispositions/inspect.ts';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import { applyAssessments } from '../../services/returns/inspections/inspections.ts';
import { runJob } from '../../services/returns/processing/run.ts';
import { ownersOf } from '../../services/returns/store/line-owners.ts';
import { createTestDatabase, type TestDatabase } from '../kit/database.ts';
import { countStatements, type Sent } from '../kit/postgres/counted-statements.ts';
import { FINDING } from '../kit/services/dispositions-bench.ts';
import { leaseOne, newReturn, newShop, runDeps, triggersOf } from '../kit/services/processing.ts';
import { inspectionsOf } from '../kit/services/return-stores.ts';
import { actor } from '../kit/services/running-service.ts';

// The cost of a write for PostgreSQL. A lower number must come from merged statements, not from missing ones: the tests
// of the services check what each operation promises.

let returns: TestDatabase;
let dispositions: TestDatabase;
beforeAll(async () => {
  [returns, dispositions] = await Promise.all([
    createTestDatabase('returns'),
    createTestDatabase('dispositions'),
  ]);
});
afterAll(() => Promise.all([returns.drop(), dispositions.drop()]));

/** Pools of both services with a common count. */
function countedPools() {
  const sent: Sent = { statements: [], roundTrips: 0 };
  const pools = [returns, dispositions].map(({ url }) => createPool(url, { max: 1 }));
  const [ofReturns, ofDispositions] = pools.map((pool) => {
    countStatements(pool, sent);
    return pool;
  });
  if (!ofReturns || !ofDispositions) throw new Error('a pool is missing');
  return {
    sent,
    ofReturns,
    ofDispositions,
    end: () => Promise.all(pools.map((pool) => pool.end())),
  };
}

/** The returns service as dispositions calls it, without the network in between. */
const depsOf = ({ ofReturns, ofDispositions }: ReturnType<typeof countedPools>): HandOverDeps => ({
  pool: ofDispositions,
  returns: {
    checkLineItems: async ({ shopId = 0n, lineItemIds = [] }) => {
      const owners = await ownersOf(ofReturns, shopId, lineItemIds);
      return create(CheckLineItemsResponseSchema, {
        owners: [...owners].map(([lineItemId, owner]) => ({ lineItemId, ...owner })),
      });
    },
    applyAssessments: async (request) => {
      await applyAssessments(
        inspectionsOf(ofReturns),
        create(ApplyAssessmentsRequestSchema, request),
      );
      return create(ApplyAssessmentsResponseSchema);
    },
    applyGradings: () => Promise.reject(new Error('nothing is graded')),
  },
});

describe('recording an assessment', () => {
  test.each([
    ['of a line for the first time', 0],
    ['of a line that was assessed before', 1],
  ])('%s needs at most 6 round trips', async (_, earlier) => {
    const shopId = await newShop(returns.pool);
    const { lineItems } = await newReturn(returns.pool, shopId);
    const lineItemId = lineItems[0]?.lineItemId ?? 0n;
    const pools = countedPools();
    const assess = (note: string) => {
      const findings = [{ ...FINDING, lineItemId, note }];
      return inspect(depsOf(pools), { shopId, actor, kind: 'assessment', findings });
    };
    for (let n = 0; n < earlier; n += 1) await assess(`note ${n}`);
    const before = pools.sent.roundTrips;
    const { created } = await assess('the last');
    expect(created).toMatchObject([{ lineItemId, note: 'the last' }]);
    const took = pools.sent.roundTrips - before;
    await pools.end();
    expect(took).toBeLessThanOrEqual(6);
    expect(took).toBeGreaterThan(3);
  });
});

test('recording assessments of thirty returns needs no more round trips than of two', async () => {
  const shopId = await newShop(returns.pool);
  const all = await Promise.all(Array.from({ length: 32 }, () => newReturn(returns.pool, shopId)));
  const ids = all.flatMap(({ lineItems }) => lineItems.slice(0, 1).map((one) => one.lineItemId));
  expect(ids).toHaveLength(32);
  const pools = countedPools();
  const roundTripsFor = async (lineItemIds: readonly bigint[], note: string) => {
    const before = pools.sent.roundTrips;
    const findings = lineItemIds.map((lineItemId) => ({ ...FINDING, lineItemId, note }));
    await inspect(depsOf(pools), { shopId, actor, kind: 'assessment', findings });
    return pools.sent.roundTrips - before;
  };
  const two = await roundTripsFor(ids.slice(0, 2), 'two');
  const thirty = await roundTripsFor(ids.slice(2), 'thirty');
  await pools.end();
  expect(thirty).toBeLessThanOrEqual(two);
});

// Exact numbers: a change that sends more, or less, states it here.
describe('a return costs', () => {
  const cost = async (work: (pool: pg.Pool) => Promise<unknown>) => {
    const pool = createPool(returns.url, { max: 1 });
    const sent = countStatements(pool);
    await work(pool);
    await pool.end();
    return { statements: sent.statements.length, roundTrips: sent.roundTrips };
  };

  test('for its submission', async () => {
    const shopId = await newShop(returns.pool);
    const submit = (pool: pg.Pool) => newReturn(pool, shopId);
    expect(await cost(submit)).toEqual({ statements: 16, roundTrips: 10 });
  });

  test('from the call that processes it to its close', async () => {
    const of = await newReturn(returns.pool, await newShop(returns.pool));
    const process = async (pool: pg.Pool) => {
      const deps = runDeps(pool, createEmbeddedCommerce(pool));
      await runJob(deps, await leaseOne(pool, of), AbortSignal.any([]));
    };
    expect(await cost(process)).toEqual({ statements: 21, roundTrips: 11 });
    expect(await triggersOf(returns.pool, of)).toEqual(['return.closed']);
  });
});
