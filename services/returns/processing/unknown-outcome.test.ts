import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { CancelReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  newReturn,
  newShop,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { storeOf } from '../../../test/kit/services/return-stores.ts';
import { until } from '../../../test/kit/until.ts';
import { cancelReturn } from '../cancel.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type Effect,
  type EffectRequest,
} from '../commerce/provider.ts';

// A request without an answer: it may have taken effect, or may still be on its way.

let db: TestDatabase;
let of: Return;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  of = await newReturn(db.pool, await newShop(db.pool));
  await requestProcessing(db.pool, of);
});

const lost = () => new CommerceFailure('passing', 'timed out');

const unsent = () => new CommerceFailure('passing', 'no connection', { isUnsent: true });

async function effectsOf() {
  const { rows } = await db.pool.query<{ asked: boolean; done: boolean }>(
    `select asked_at is not null as asked, done_at is not null as done
       from processing_outcomes where shop_id = $1 and return_id = $2`,
    [of.shopId, of.id],
  );
  return rows;
}

/** A provider that forgets every key: each request that reaches it is another refund. */
class Forgetful implements CommerceProvider {
  readonly settledAfterMs: number;
  readonly made: Effect[] = [];
  searches = 0;
  /** What a search says before the provider looks into its refunds. */
  beforeSearch = (): void => {};

  constructor(settledAfterMs = 0) {
    this.settledAfterMs = settledAfterMs;
  }

  async create({ amount, currency }: EffectRequest): Promise<Effect> {
    const id = String(this.made.length + 1);
    const names = { name: '', gateway: 'card', provider: 'test' };
    this.made.push({ id, ...names, amount, currency, createdAt: undefined });
    throw lost();
  }

  async list(): Promise<undefined> {}

  async find(): Promise<Effect | undefined> {
    this.searches += 1;
    this.beforeSearch();
    return this.made[0];
  }
}

const run = (commerce: CommerceProvider) => runDue(runDeps(db.pool, commerce));

describe('after a request without an answer', () => {
  test('processing searches for the effect and requests nothing again', async () => {
    const provider = new Forgetful();
    await run(provider);
    expect(provider.made).toHaveLength(1);
    expect(provider.searches).toBe(1);
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
  });

  test('processing searches until the provider answers the search', async () => {
    const provider = new Forgetful();
    const kinds = ['passing', 'final'] as const;
    provider.beforeSearch = () => {
      const kind = kinds[provider.searches - 1];
      if (kind) throw new CommerceFailure(kind, 'no');
    };
    await run(provider);
    expect(provider.searches).toBe(3);
    expect(provider.made).toHaveLength(1);
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
  });

  test('processing requests nothing again while the request may still be on its way', async () => {
    const provider = new Forgetful(400);
    const arriving = provider.made;
    provider.beforeSearch = () => {
      if (provider.searches !== 2) return;
      const { presentmentCurrency: currency } = of;
      const names = { name: '', gateway: 'card', provider: 'test' };
      arriving.push({ id: 'late', ...names, amount: '20.00', currency, createdAt: undefined });
    };
    let requests = 0;
    provider.create = async () => {
      requests += 1;
      throw lost();
    };
    await until(async () => {
      await run(provider);
      return (await triggersOf(db.pool, of)).length > 0;
    });
    expect(requests).toBe(1);
    expect(arriving).toHaveLength(1);
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
  });

  test('a rejection does not say that the earlier request had no effect', async () => {
    const provider = new Forgetful(1);
    const answers = [lost(), new CommerceFailure('final', 'the order was refunded already')];
    provider.create = async () => Promise.reject(answers.shift() ?? lost());
    await until(async () => {
      await run(provider);
      return (await triggersOf(db.pool, of)).length > 0;
    });
    expect(await triggersOf(db.pool, of)).toEqual(['return.processing.failed']);
    const { shopId, id: returnId } = of;
    const cancelling = cancelReturn(
      storeOf(db.pool),
      create(CancelReturnRequestSchema, { shopId, actor, returnId }),
    );
    await expect(cancelling).rejects.toThrow('unknown outcome');
  });

  test('a repeated request that is not sent leaves the outcome unknown', async () => {
    const provider = new Forgetful(1);
    const failures = [lost(), unsent()];
    provider.create = async () =>
      Promise.reject(failures.shift() ?? new CommerceFailure('final', 'no'));
    await until(async () => {
      await run(provider);
      return (await triggersOf(db.pool, of)).length > 0;
    });
    expect(await effectsOf()).toEqual([{ asked: true, done: false }]);
  });

  test('processing requests it again when the provider knows no effect after that time', async () => {
    const provider = new Forgetful();
    const { create: make } = Forgetful.prototype;
    let calls = 0;
    provider.create = async (request) => {
      calls += 1;
      if (calls === 1) throw lost();
      return make.call(provider, request);
    };
    await run(provider);
    expect(calls).toBe(2);
    expect(provider.made).toHaveLength(1);
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
  });
});

describe('after a request that was not sent', () => {
  const DAY_MS = 86_400_000;

  test('processing requests it again without a search', async () => {
    const provider = new Forgetful(DAY_MS);
    let calls = 0;
    provider.create = async (request) => {
      calls += 1;
      if (calls <= 2) throw unsent();
      const made = { id: '1', name: '', gateway: 'card', provider: 'test', createdAt: undefined };
      return { ...made, amount: request.amount, currency: request.currency };
    };
    await run(provider);
    expect({ calls, searches: provider.searches }).toEqual({ calls: 3, searches: 0 });
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
  });

  test('the outcome is known when the time for retries is over', async () => {
    const provider = new Forgetful(DAY_MS);
    provider.create = async () => {
      await db.pool.query(
        `update processing_jobs set failing_since = now() - interval '1 day'
          where shop_id = $1 and return_id = $2`,
        [of.shopId, of.id],
      );
      throw unsent();
    };
    await run(provider);
    expect(await triggersOf(db.pool, of)).toEqual(['return.processing.failed']);
    expect(await effectsOf()).toEqual([{ asked: false, done: false }]);
  });
});
