import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Return,
  ReturnState,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ProcessReturnRequestSchema,
  UnflagReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  creating,
  eventsOf,
  exchangeWith,
  newReturn,
  newShop,
  onlyProvider,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  upsell,
} from '../../../test/kit/services/processing.ts';
import { storeOf } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type EffectRequest,
} from '../../commerce/provider.ts';
import { effectView } from '../../contract/views/objects.ts';
import { insertInstantRefund } from '../instant-refunds/instant-refunds-store.ts';
import { purgeJobs } from '../retention/purge.ts';
import { unflagReturn } from '../review/flag.ts';
import { listEffects } from './effects.ts';
import { processReturn } from './process.ts';

// A coat of 25.00 for goods of 20.00: the shopper pays 5.00.
let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

describe('process return', () => {
  test('queues an open return without changing its details', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    expect(await requestProcessing(db.pool, submitted)).toMatchObject({ case: 'queued' });
    const queued = await reload(db.pool, submitted);
    expect(queued).toMatchObject({ processing: true, revision: submitted.revision });
    expect(await eventsOf(db.pool, submitted)).toEqual([]);
  });

  test('adds the additional details to the timeline', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted, {
      source: 'warehouse',
      details: {
        picker: { value: { case: 'text', value: 'Ann' } },
        weight: { value: { case: 'number', value: '1.50' } },
        rush: { value: { case: 'truth', value: true } },
        note: {},
      },
    });
    const entries = await timelineOf(db.pool, submitted);
    expect(entries.at(-1)).toEqual({
      kind: 'return.processing.queued',
      text: 'Processing was requested (warehouse)',
      facts: { picker: 'Ann', weight: '1.50', rush: 'true', note: 'null' },
    });
  });

  test('says that a return is queued already, even when its provider cannot be used', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    const request = { shopId: submitted.shopId, returnId: submitted.id, actor };
    const of = () => Promise.reject(new Error('the secrets cannot be decrypted'));
    const providers = { ...onlyProvider(createEmbeddedCommerce(db.pool)), of };
    const answer = processReturn(db.pool, create(ProcessReturnRequestSchema, request), providers);
    expect(await answer).toMatchObject({ result: { case: 'alreadyQueued' } });
  });

  test('queues only the revision that the caller has read', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    const of = { expectedRevision: submitted.revision };
    const other = { expectedRevision: submitted.revision + 1n };
    await expect(requestProcessing(db.pool, submitted, other)).rejects.toMatchObject({
      reason: ErrorReason.REVISION_CONFLICT,
    });
    expect((await reload(db.pool, submitted)).processing).toBe(false);
    const keyed = { ...of, idempotencyKey: 'k-2' };
    expect(await requestProcessing(db.pool, submitted, keyed)).toMatchObject({ case: 'queued' });
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    for (const { expectedRevision } of [of, other]) {
      const repeat = { ...keyed, expectedRevision };
      expect(await requestProcessing(db.pool, submitted, repeat)).toMatchObject({ case: 'queued' });
    }
  });

  test('queues once when many calls are concurrent', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => requestProcessing(db.pool, submitted)),
    );
    const cases = answers.map((answer) => answer.case).sort();
    expect(cases).toEqual([...Array(7).fill('alreadyQueued'), 'queued']);
  });

  test('returns the first result for the same key, also after the return was closed', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    const keyed = { idempotencyKey: 'k-1' };
    expect(await requestProcessing(db.pool, submitted, keyed)).toMatchObject({ case: 'queued' });
    expect(await requestProcessing(db.pool, submitted, keyed)).toMatchObject({ case: 'queued' });
    expect(await requestProcessing(db.pool, submitted)).toMatchObject({ case: 'alreadyQueued' });
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    expect(await requestProcessing(db.pool, submitted, keyed)).toMatchObject({ case: 'queued' });
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.CLOSED);
    const queued = (await timelineOf(db.pool, submitted)).filter(({ kind }) => /queued/.test(kind));
    expect(queued).toHaveLength(1);
    await expect(
      requestProcessing(db.pool, submitted, { ...keyed, source: 'api' }),
    ).rejects.toMatchObject({
      field: 'idempotency_key',
    });
  });

  test('returns the first result for the same details in another order, as Go sends maps', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    const given = (...names: string[]) => ({
      idempotencyKey: 'k-1',
      details: Object.fromEntries(
        names.map((name) => [name, { value: { case: 'text' as const, value: `of ${name}` } }]),
      ),
    });
    await requestProcessing(db.pool, submitted, given('picker', 'Shift', '10', 'bin'));
    const repeat = given('bin', '10', 'picker', 'Shift');
    expect(await requestProcessing(db.pool, submitted, repeat)).toMatchObject({ case: 'queued' });
    await expect(
      requestProcessing(db.pool, submitted, given('bin', '10', 'picker')),
    ).rejects.toMatchObject({ field: 'idempotency_key' });
  });

  test('checks a repeat again when the first call queued nothing', async () => {
    const flagged = await newReturn(db.pool, await newShop(db.pool), { flagReasons: ['odd'] });
    const keyed = { idempotencyKey: 'k-1' };
    expect(await requestProcessing(db.pool, flagged, keyed)).toMatchObject({ case: 'refused' });
    await unflagReturn(
      storeOf(db.pool),
      create(UnflagReturnRequestSchema, { shopId: flagged.shopId, actor, returnId: flagged.id }),
    );
    expect(await requestProcessing(db.pool, flagged, keyed)).toMatchObject({ case: 'queued' });
  });

  test('drops the details of a repeated call', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('gift card'));
    const by = (name: string) => ({
      details: { picker: { value: { case: 'text' as const, value: name } } },
    });
    await requestProcessing(db.pool, submitted, by('Ann'));
    expect(await requestProcessing(db.pool, submitted, by('Bob'))).toMatchObject({
      case: 'alreadyQueued',
    });
    const commerce = createEmbeddedCommerce(db.pool);
    await runDue(runDeps(db.pool, commerce));
    const { orders } = await commerce.ordersOf(submitted.id);
    expect(orders).toMatchObject([{ additionalDetails: { picker: 'Ann' } }]);
    const noted = (await timelineOf(db.pool, submitted)).filter(({ facts }) => facts.picker);
    expect(noted.map(({ facts }) => facts.picker)).toEqual(['Ann']);
  });

  describe('after a run that failed', () => {
    const by = (name: string) => ({
      details: { picker: { value: { case: 'text' as const, value: name } } },
    });
    const failing = () => {
      const commerce = createEmbeddedCommerce(db.pool);
      return creating(commerce, 'exchange_order', () =>
        Promise.reject(new CommerceFailure('final', 'no stock')),
      );
    };
    async function failed(name: string) {
      const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('gift card'));
      await requestProcessing(db.pool, submitted, by(name));
      await runDue(runDeps(db.pool, failing()));
      return submitted;
    }
    async function pickersOf(of: { id: bigint }) {
      const { orders } = await createEmbeddedCommerce(db.pool).ordersOf(of.id);
      return orders.map((order) => order.additionalDetails.picker);
    }

    test('uses its details again, and through a second failure', async () => {
      const submitted = await failed('Ann');
      await requestProcessing(db.pool, submitted);
      await runDue(runDeps(db.pool, failing()));
      await requestProcessing(db.pool, submitted);
      await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
      expect(await pickersOf(submitted)).toEqual(['Ann']);
      const noted = (await timelineOf(db.pool, submitted)).filter(({ facts }) => facts.picker);
      expect(noted.map(({ facts }) => facts.picker)).toEqual(['Ann', 'Ann', 'Ann']);
    });

    test('uses the details of the next call instead', async () => {
      const submitted = await failed('Ann');
      await requestProcessing(db.pool, submitted, by('Bob'));
      await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
      expect(await pickersOf(submitted)).toEqual(['Bob']);
    });

    test('keeps them as long as the return can be processed', async () => {
      const submitted = await failed('Ann');
      const age = () =>
        db.pool.query(
          `update processing_jobs set finished_at = now() - interval '31 days'
            where shop_id = $1 and finished_at is not null`,
          [submitted.shopId],
        );
      await age();
      await purgeJobs(db.pool);
      await requestProcessing(db.pool, submitted);
      await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
      expect(await pickersOf(submitted)).toEqual(['Ann']);
      await age();
      expect(await purgeJobs(db.pool)).toBe(2);
    });
  });

  const jobsOf = async ({ shopId, id }: Return): Promise<number | null> => {
    const { rowCount } = await db.pool.query(
      'select from processing_jobs where shop_id = $1 and return_id = $2',
      [shopId, id],
    );
    return rowCount;
  };

  test('rejects a flagged return', async () => {
    const flagged = await newReturn(db.pool, await newShop(db.pool), { flagReasons: ['odd'] });
    expect(await requestProcessing(db.pool, flagged)).toMatchObject({
      case: 'refused',
      value: { code: 1, message: expect.stringMatching(/flagged/) },
    });
    expect(await jobsOf(flagged)).toBe(0);
  });

  test('rejects a closed return', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.CLOSED);
    expect(await requestProcessing(db.pool, submitted)).toMatchObject({
      case: 'refused',
      value: { code: 2 },
    });
  });

  test.each(['cancelled', 'expired'])('rejects a return that is %s', async (state) => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await db.pool.query('update returns set state = $2 where shop_id = $3 and id = $1', [
      submitted.id,
      state,
      submitted.shopId,
    ]);
    expect(await requestProcessing(db.pool, submitted)).toMatchObject({
      case: 'refused',
      value: { code: 2 },
    });
  });

  test.each(['closed', 'cancelled', 'expired'])(
    'rejects a return that is %s before it checks its instant refund',
    async (state) => {
      const submitted = await newReturn(db.pool, await newShop(db.pool));
      const of = { shopId: submitted.shopId, returnId: submitted.id };
      await insertInstantRefund(db.pool, {
        ...of,
        amount: '1.00',
        currency: 'GBP',
        chargeReference: '',
      });
      expect(await requestProcessing(db.pool, submitted)).toMatchObject({
        case: 'skippedInstantRefund',
      });
      expect(await jobsOf(submitted)).toBe(0);
      await db.pool.query(
        `update returns set state = $3, archived_at = case when $3 = 'closed' then now() end
          where shop_id = $1 and id = $2`,
        [submitted.shopId, submitted.id, state],
      );
      expect(await requestProcessing(db.pool, submitted)).toMatchObject({
        case: 'refused',
        value: { code: 2 },
      });
    },
  );

  test.each([
    ['more than 50 keys', Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`k${n}`, {}]))],
    ['more than 16 KiB', { k: { value: { case: 'text' as const, value: 'x'.repeat(16_384) } } }],
    ['what is not a JSON number', { k: { value: { case: 'number' as const, value: '0x10' } } }],
    ['NUL', { k: { value: { case: 'text' as const, value: 'a\0b' } } }],
  ])('rejects details with %s', async (_name, details) => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await expect(requestProcessing(db.pool, submitted, { details })).rejects.toMatchObject({
      field: expect.stringMatching(/^details/),
    });
  });
});

const prepaid = { upsellPayment: UpsellPayment.PREPAID, upsellPaymentReference: 'pay_77' };

async function processed(of: Return, commerce: CommerceProvider): Promise<Return> {
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
  return reload(db.pool, of);
}

/** The effects of a return, as partners see them. */
async function effectsOf({ shopId, id: returnId }: Return) {
  return (await listEffects(db.pool, { shopId, returnId })).map(effectView);
}

/** A provider with a ledger that shows its requests, and may change its answers. */
function asked(
  change: (made: Awaited<ReturnType<CommerceProvider['create']>>) => typeof made = (made) => made,
) {
  const ledger = createEmbeddedCommerce(db.pool);
  const requests: EffectRequest[] = [];
  const commerce: CommerceProvider = {
    ...ledger,
    async create(request, signal) {
      requests.push(request);
      return change(await ledger.create(request, signal));
    },
  };
  return { commerce, requests };
}

describe('an exchange that costs more than the return credit', () => {
  test('is requested with what the return pays and what is due, and the timeline says so', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), upsell());
    const { commerce, requests } = asked();
    const closed = await processed(submitted, commerce);
    expect(closed).toMatchObject({
      state: ReturnState.CLOSED,
      upsellPayment: UpsellPayment.INVOICE,
    });
    const funding = { paidByReturn: '20.00', due: '5.00', paymentReference: '' };
    expect(requests).toMatchObject([{ kind: 'exchange_order', amount: '25.00', funding }]);
    const { orders } = await createEmbeddedCommerce(db.pool).ordersOf(submitted.id);
    expect(orders).toMatchObject([{ amount: '25.00', due: '5.00' }]);
    const entry = (await timelineOf(db.pool, submitted)).find(({ kind }) =>
      /exchange_order/.test(kind),
    );
    expect(entry?.facts).toMatchObject({ amount: '25.00', paid_by_return: '20.00', due: '5.00' });
    expect(await effectsOf(submitted)).toMatchObject([
      { amount: '25.00', due: '5.00', upsell_payment: 'invoice' },
    ]);
  });

  test('that was prepaid is requested with the reference, and nothing is due', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), upsell(prepaid));
    const { commerce, requests } = asked();
    expect((await processed(submitted, commerce)).state).toBe(ReturnState.CLOSED);
    const funding = { paidByReturn: '20.00', due: '0.00', paymentReference: 'pay_77' };
    expect(requests).toMatchObject([{ amount: '25.00', funding }]);
    const entries = await timelineOf(db.pool, submitted);
    expect(entries.map(({ facts }) => facts.upsell_payment)).toEqual([
      'pay_77',
      undefined,
      'pay_77',
      undefined,
    ]);
    expect(await effectsOf(submitted)).toMatchObject([
      { amount: '25.00', due: '0.00', upsell_payment: 'prepaid' },
    ]);
  });

  test('has nothing due when the returned goods pay all of it, and other effects have no payment', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    await processed(submitted, asked().commerce);
    expect(await effectsOf(submitted)).toMatchObject([
      { effect: 'exchange_order', due: '0.00', upsell_payment: null },
      { effect: 'refund', due: null, upsell_payment: null },
    ]);
  });

  test('is not booked as paid: an answer without what is due stops the processing', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), upsell());
    const { commerce } = asked(({ due: _, ...made }) => made);
    const open = await processed(submitted, commerce);
    expect(open).toMatchObject({ state: ReturnState.OPEN, exchangeOrders: [] });
    const reason = expect.stringContaining(
      '25.00 GBP, of which nothing is due, requested were 25.00 GBP, of which 5.00 is due',
    );
    expect((await timelineOf(db.pool, submitted)).at(-1)).toMatchObject({
      kind: 'return.processing.failed',
      facts: { reason },
    });
    expect(
      await listEffects(db.pool, { shopId: submitted.shopId, returnId: submitted.id }),
    ).toMatchObject([{ problem: reason }]);
  });

  test('that the provider rejects leaves the return open, which says why', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), upsell());
    const why = 'the endpoint answered 422: we cannot collect 5.00';
    const create = () => Promise.reject(new CommerceFailure('final', why));
    const commerce = { ...createEmbeddedCommerce(db.pool), create };
    expect((await processed(submitted, commerce)).state).toBe(ReturnState.OPEN);
    expect((await timelineOf(db.pool, submitted)).at(-1)).toMatchObject({ facts: { reason: why } });
    const { orders } = await createEmbeddedCommerce(db.pool).ordersOf(submitted.id);
    expect(orders).toEqual([]);
  });

  test.each([
    [
      'without a reference',
      { ...prepaid, upsellPaymentReference: ' ' },
      'upsell_payment_reference',
    ],
    [
      'with a reference and no payment',
      { upsellPaymentReference: 'pay_77' },
      'upsell_payment_reference',
    ],
    ['without an upsell', { ...exchangeWith('refund'), ...prepaid }, 'upsell_payment'],
  ])('is rejected as prepaid %s', async (_, more, field) => {
    const shopId = await newShop(db.pool);
    await expect(newReturn(db.pool, shopId, upsell(more))).rejects.toMatchObject({ field });
  });
});
