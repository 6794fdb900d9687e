import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
  RecordLabelRequestSchema,
  RestockMode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  changeSettings,
  creating,
  effectKey,
  exchangeWith,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import { until } from '../../../test/kit/until.ts';
import {
  createEmbeddedCommerce,
  type EmbeddedCommerce,
  type LedgerEntry,
} from '../../commerce/embedded.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type Effect,
  type EffectRequest,
} from '../../commerce/provider.ts';
import { editReturn } from '../edit/edit.ts';
import { endInstantRefund, insertInstantRefund } from '../instant-refunds/instant-refunds-store.ts';
import { recordLabel } from '../labels/labels.ts';
import { sweepExpired } from '../retention/expiry.ts';
import { cancelReturn } from '../review/cancel.ts';

// A request without an answer: it may have taken effect, or may still be on its way.
let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

describe('a call with an unknown outcome', () => {
  let of: Return;
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
});

describe('a return that is done in part', () => {
  let commerce: EmbeddedCommerce;
  let failed: Return;
  beforeAll(async () => {
    commerce = createEmbeddedCommerce(db.pool);
  });
  beforeEach(async () => {
    failed = await failAfterExchange(await newReturn(db.pool, await newShop(db.pool), exchange));
  });

  const exchange = exchangeWith('refund');
  const forbidden = (why: string) => ({
    code: Code.FailedPrecondition,
    message: expect.stringContaining(why),
  });

  async function failAfterExchange(of: Return): Promise<Return> {
    const refusing = creating(commerce, 'refund', () =>
      Promise.reject(new CommerceFailure('final', 'card closed')),
    );
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, refusing));
    return reload(db.pool, of);
  }

  function edit(of: Return, more: MessageInitShape<typeof EditReturnRequestSchema> = {}) {
    const { shopId, id: returnId, revision: expectedRevision } = of;
    const changes = of.lineItems.map(({ lineItemId }) => ({ lineItemId, quantity: 7 }));
    const request = { shopId, actor, returnId, expectedRevision, changes, ...more };
    return editReturn(storeOf(db.pool), create(EditReturnRequestSchema, request));
  }

  function cancel({ shopId, id: returnId }: Return) {
    return cancelReturn(
      storeOf(db.pool),
      create(CancelReturnRequestSchema, { shopId, actor, returnId }),
    );
  }

  async function addOverdueLabel({ shopId, id: returnId }: Return): Promise<void> {
    const createdAt = timestampFromDate(new Date(Date.now() - 30 * 86_400_000));
    const idempotencyKey = randomUUID();
    const label = { shopId, actor, idempotencyKey, returnId, carrier: 'X', createdAt };
    await recordLabel(storeOf(db.pool), create(RecordLabelRequestSchema, label));
  }

  describe('a return of which processing fulfilled a part', () => {
    test('cannot be edited', async () => {
      await expect(edit(failed)).rejects.toMatchObject(forbidden('was already paid'));
      expect(await reload(db.pool, failed)).toEqual(failed);
    });

    test('is rejected first for another revision', async () => {
      const stale = edit(failed, { expectedRevision: failed.revision + 1n });
      await expect(stale).rejects.toMatchObject({ code: Code.Aborted });
    });

    test('does not expire, because another run must complete it', async () => {
      const { shopId } = failed;
      await addOverdueLabel(failed);
      expect(await sweepExpired(changeDeps(db.pool), { shopId })).toBe(0);
      expect((await reload(db.pool, failed)).state).toBe(ReturnState.OPEN);
    });

    test('is closed by another run, which does the rest', async () => {
      await requestProcessing(db.pool, failed);
      await runDue(runDeps(db.pool, commerce));
      expect(await reload(db.pool, failed)).toMatchObject({
        state: ReturnState.CLOSED,
        exchangeOrders: [{}],
        refunds: [{}],
      });
    });
  });

  describe('a return with a request of unknown outcome at the provider', () => {
    let unanswered: Return;
    beforeEach(async () => {
      unanswered = await newReturn(db.pool, await newShop(db.pool));
      await requestProcessing(db.pool, unanswered);
      // The refund takes effect, its response is lost, and no attempt is left.
      const silenced = creating(commerce, 'refund', async (request, signal) => {
        await commerce.create(request, signal);
        throw new CommerceFailure('passing', 'timed out');
      });
      const deps = runDeps(db.pool, silenced);
      await runDue({ ...deps, retryBackoff: () => 3_600_000 });
      unanswered = await reload(db.pool, unanswered);
      expect(await triggersOf(db.pool, unanswered)).toEqual(['return.processing.failed']);
    });

    test('cannot be edited or cancelled, and does not expire', async () => {
      for (const refused of [edit, cancel]) {
        await expect(refused(unanswered)).rejects.toMatchObject(forbidden('unknown outcome'));
        await expect(refused(unanswered)).rejects.toMatchObject(forbidden('`commerce settle`'));
      }
      await addOverdueLabel(unanswered);
      const { shopId } = unanswered;
      expect(await sweepExpired(changeDeps(db.pool), { shopId })).toBe(0);
    });

    test('is closed by another run, with one refund', async () => {
      await requestProcessing(db.pool, unanswered);
      await runDue(runDeps(db.pool, commerce));
      expect(await reload(db.pool, unanswered)).toMatchObject({
        state: ReturnState.CLOSED,
        refunds: [{ money: { value: '20.00' } }],
      });
    });

    test('does not close when a requested step is not planned any more', async () => {
      const { shopId, id: returnId } = unanswered;
      // Directly in the table, because the service rejects an instant refund of such a return.
      const paid = { amount: '20.00', currency: 'GBP', chargeReference: '' };
      const id = await insertInstantRefund(db.pool, { shopId, returnId, ...paid });
      await endInstantRefund(db.pool, { shopId, id, state: 'returned' });
      await requestProcessing(db.pool, unanswered);
      await runDue(runDeps(db.pool, commerce));
      const failures = ['return.processing.failed', 'return.processing.failed'];
      expect(await triggersOf(db.pool, unanswered)).toEqual(failures);
      const after = await reload(db.pool, unanswered);
      expect(after).toMatchObject({ state: ReturnState.OPEN, processing: false });
      // Another request of a refund that had not taken effect would pay twice.
      expect((await commerce.ordersOf(returnId)).refunds).toMatchObject([{ calls: 1 }]);
    });

    test('can be edited again after the provider has rejected', async () => {
      const other = await newReturn(db.pool, await newShop(db.pool));
      await requestProcessing(db.pool, other);
      const kinds = ['passing', 'final'] as const;
      let calls = 0;
      const refusing = creating(commerce, 'refund', () => {
        calls += 1;
        return Promise.reject(new CommerceFailure(kinds[calls - 1] ?? 'final', 'no'));
      });
      await runDue(runDeps(db.pool, refusing));
      expect(calls).toBe(2);
      expect((await cancel(other)).state).toBe(ReturnState.CANCELLED);
    });
  });

  test('a different amount than requested stops processing, and the return does not change', async () => {
    const of = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, of);
    const wrong = creating(commerce, 'refund', (request, signal) =>
      commerce.create({ ...request, amount: '19.00' }, signal),
    );
    await runDue(runDeps(db.pool, wrong));
    expect(await triggersOf(db.pool, of)).toEqual(['return.processing.failed']);
    const after = await reload(db.pool, of);
    expect(after).toMatchObject({ state: ReturnState.OPEN, processing: false, refunds: [] });
    await expect(cancel(after)).rejects.toMatchObject(forbidden('unknown outcome'));
    // The provider always returns the same for this key, so a later run does not close with a wrong refund either.
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, commerce));
    expect((await reload(db.pool, of)).state).toBe(ReturnState.OPEN);
  });

  test('a return whose run failed without an effect can be edited and cancelled', async () => {
    const of = await newReturn(db.pool, await newShop(db.pool));
    await commerce.failNext({ returnId: of.id, kind: 'final', times: 1 });
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, commerce));
    await edit(await reload(db.pool, of));
    expect((await cancel(of)).state).toBe(ReturnState.CANCELLED);
  });
});

describe('lost commits', () => {
  /** The database that was lost with its last commits, and the one that serves after it. */
  let lost: TestDatabase;
  let promoted: TestDatabase;
  /** The provider knows both. */
  let provider: EmbeddedCommerce;
  beforeAll(async () => {
    [lost, promoted] = await Promise.all([
      createTestDatabase('returns'),
      createTestDatabase('returns'),
    ]);
    provider = createEmbeddedCommerce(lost.pool);
  });
  afterAll(() => Promise.all([lost.drop(), promoted.drop()]));

  const settings = { currency: 'GBP', restockMode: RestockMode.PROVIDER };

  async function processed(
    { pool }: TestDatabase,
    shopId: bigint,
    rest: 'gift card' | 'refund',
  ): Promise<Return> {
    const of = await newReturn(pool, shopId, exchangeWith(rest));
    await requestProcessing(pool, of);
    await runDue(runDeps(pool, provider));
    return of;
  }

  describe('a return with the id of a return that a promoted database has lost', () => {
    test.each(['refund', 'gift card'] as const)(
      'gets its own exchange order, %s and restock',
      async (rest) => {
        const shopId = await newShop(lost.pool, settings);
        await changeSettings(promoted.pool, shopId, settings);
        const first = await processed(lost, shopId, rest);
        const second = await processed(promoted, shopId, rest);
        expect(second.id).toBe(first.id);
        const made = await provider.ordersOf(first.id);
        const keysOf = async (kind: string) =>
          [
            await effectKey(lost.pool, first, kind),
            await effectKey(promoted.pool, second, kind),
          ].sort();
        const seen = Object.values(made).flatMap((entries: readonly LedgerEntry[]) =>
          entries.map(({ idempotencyKey, calls }) => ({ idempotencyKey, calls })),
        );
        const kinds = ['exchange_order', rest === 'refund' ? 'refund' : 'gift_card', 'restock'];
        const keys = (await Promise.all(kinds.map(keysOf))).flat();
        expect(new Set(keys).size).toBe(6);
        expect(seen.map(({ idempotencyKey }) => idempotencyKey).sort()).toEqual(keys.sort());
        expect(seen.every(({ calls }) => calls === 1)).toBe(true);
      },
    );
  });

  test('an effect keeps the key with which it was recorded first, also when another release makes other keys', async () => {
    const of = await newReturn(promoted.pool, await newShop(promoted.pool));
    const key = `rms:return:${of.id}:other:refund`;
    await promoted.pool.query(
      `insert into processing_outcomes (shop_id, return_id, kind, key, amount, currency)
     values ($1, $2, 'refund', $3, 20, 'GBP')`,
      [of.shopId, of.id, key],
    );
    await requestProcessing(promoted.pool, of);
    await runDue(runDeps(promoted.pool, createEmbeddedCommerce(promoted.pool)));
    const { refunds } = await createEmbeddedCommerce(promoted.pool).ordersOf(of.id);
    expect(refunds).toMatchObject([{ idempotencyKey: key, calls: 1 }]);
  });
});
