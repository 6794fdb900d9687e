import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type Return,
  ReturnState,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  exchangeWith,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  upsell,
} from '../../../test/kit/services/processing.ts';
import { listEffects } from '../commerce/effects.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type EffectRequest,
} from '../commerce/provider.ts';

// A coat of 25.00 for goods of 20.00: the shopper pays 5.00.

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const prepaid = { upsellPayment: UpsellPayment.PREPAID, upsellPaymentReference: 'pay_77' };

async function processed(of: Return, commerce: CommerceProvider): Promise<Return> {
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
  return reload(db.pool, of);
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
