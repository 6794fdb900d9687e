import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
  RestockMode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { orderOf, reportOrder, reportRefund } from '../../../test/kit/commerce/inbound.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { mug } from '../../../test/kit/services/look-up.ts';
import {
  actor,
  claimOne,
  creating,
  effectKey,
  endLeases,
  eventsOf,
  exchangeWith,
  newLine,
  newReturn,
  newShop,
  onlyProvider,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
} from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import { order, shopWithOrder } from '../../../test/kit/services/shop-with-order.ts';
import { until } from '../../../test/kit/until.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type FoundOrder,
} from '../../commerce/provider.ts';
import { editReturn } from '../edit/edit.ts';
import { prepare } from '../processing/prepare.ts';
import { runJob } from '../processing/run.ts';
import { cancelReturn } from '../review/cancel.ts';

// Processing does not refund what was refunded at the provider.

let db: TestDatabase;
let of: Return;
let commerce: ReturnType<typeof createEmbeddedCommerce>;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  commerce = createEmbeddedCommerce(db.pool);
  of = await twoOfThree();
});

function mugs(price: bigint): FoundOrder['lines'][number] {
  const value = { price, discount: 0n, tax: 0n };
  const paid = { shop: value, presentment: value };
  return { ...mug, id: 1n, kind: 'product', shipped: 2, quantity: 2, left: { units: 2 }, paid };
}

/** A return of two of three ordered units. */
async function twoOfThree(): Promise<Return> {
  const lines = [{ ...newLine(), quantity: 2, orderedQuantity: 3 }];
  return newReturn(db.pool, await newShop(db.pool), { lines });
}

const refundThere = (quantity: number, more = {}) =>
  reportRefund(db.pool, orderOf(of), { quantity, ...more });
const cancelThere = () =>
  reportOrder(db.pool, orderOf(of), { quantity: 3, cancelledAt: new Date() });

async function run(provider: CommerceProvider = commerce): Promise<ReturnState> {
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, provider));
  return (await reload(db.pool, of)).state;
}

const kinds = async () => (await timelineOf(db.pool, of)).map(({ kind }) => kind);

const messages = async (): Promise<string[]> =>
  (await eventsOf(db.pool, of)).flatMap(({ detail }) =>
    detail.case === 'processingFailed' ? [detail.value.message ?? ''] : [],
  );

async function setQuantity(quantity: number): Promise<void> {
  const { revision, lineItems } = await reload(db.pool, of);
  const changes = lineItems.map(({ lineItemId }) => ({ lineItemId, quantity }));
  const request = { shopId: of.shopId, actor, returnId: of.id, expectedRevision: revision };
  await editReturn(storeOf(db.pool), create(EditReturnRequestSchema, { ...request, changes }));
}

describe('a line that was refunded at the provider', () => {
  test('is not refunded again: nothing is requested, and the return stays open', async () => {
    await refundThere(2);
    expect(await run()).toBe(ReturnState.OPEN);
    expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
    const { rowCount } = await db.pool.query(
      'select from processing_outcomes where shop_id = $1 and return_id = $2',
      [of.shopId, of.id],
    );
    expect(rowCount).toBe(0);
    expect(await messages()).toEqual([
      `Processing stopped: order line ${orderOf(of).line}: 3 units were ordered and 0 of them are in other returns, and 2 were refunded at the commerce provider, so 2 cannot be returned.`,
    ]);
  });

  test('is refunded after an edit to the units that are left', async () => {
    await refundThere(2);
    await run();
    await setQuantity(1);
    expect(await run()).toBe(ReturnState.CLOSED);
    expect((await commerce.ordersOf(of.id)).refunds).toHaveLength(1);
  });

  test('is refunded when enough units are left', async () => {
    await refundThere(1);
    expect(await run()).toBe(ReturnState.CLOSED);
  });

  test('is not exchanged either', async () => {
    of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    await refundThere(1);
    expect(await run()).toBe(ReturnState.OPEN);
    expect(await messages()).toEqual([expect.stringContaining('it is not known how many')]);
    expect((await commerce.ordersOf(of.id)).orders).toEqual([]);
  });
});

describe('a refund that the merchant made by its amount', () => {
  let shop: ReturnType<typeof shopWithOrder>;
  /** Two mugs of 10.00, and 4.00 for shipping. */
  const found: FoundOrder = {
    ...order,
    currencies: { shop: 'GBP', presentment: 'GBP' },
    shipping: { paid: { shop: 400n, presentment: 400n }, left: { shop: 400n, presentment: 400n } },
    lines: [mugs(2_000n)],
  };
  const listed = (minor: bigint): FoundOrder => ({
    ...found,
    otherRefunds: [{ id: 'R-1', key: '', value: { shop: minor, presentment: minor } }],
  });
  beforeEach(async () => {
    shop = shopWithOrder({ pool: db.pool, shopId: await newShop(db.pool) });
    const lines = [{ providerLineItemId: 1n, quantity: 2 }];
    of = (await shop.submit({ lines }, shop.platform(found))).return;
  });
  const byAmount = (amount: string, more = {}) => refundThere(0, { amount, lines: [], ...more });
  const tooMuch = (left: string) => [
    `Processing stopped: the returns of the order pay 20.00 GBP together, and only ${left} of what was paid is left after refunds at the commerce provider.`,
  ];

  const partOfPrice = { providerLineItemId: 1n, quantity: 0, amount: '4.01' };
  test.each([
    ['that the provider lists', listed(401n), []],
    ['that it has only reported', found, []],
    ['for no unit of a line', found, [partOfPrice]],
  ])('%s, is not paid again', async (_, now, lines) => {
    await byAmount('4.01', { lines });
    expect(await run(shop.platform(now))).toBe(ReturnState.OPEN);
    expect(await messages()).toEqual(tooMuch('19.99'));
    expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
  });

  test.each([
    ['which other money of the order paid', '4.00', found],
    [
      'of shipping, which the order shows',
      '4.01',
      {
        ...found,
        shipping: { paid: { shop: 500n, presentment: 500n }, left: { shop: 0n, presentment: 0n } },
      },
    ],
    ['of an order that is not found', '24.00', undefined],
  ])('%s, stops nothing', async (_, amount, now) => {
    await byAmount(amount);
    expect(await run(shop.platform(now))).toBe(ReturnState.CLOSED);
  });

  describe('with returns of one mug', () => {
    /** Three mugs of 10.00, and 4.00 for shipping. */
    const three = (units: number): FoundOrder => ({
      ...found,
      lines: [{ ...mugs(3_000n), quantity: 3, shipped: 3, returnable: units, left: { units } }],
    });
    const submit = async () => {
      const lines = [{ providerLineItemId: 1n, quantity: 1 }];
      return (await shop.submit({ lines }, shop.platform(three(3)))).return;
    };
    /** A platform that does `then` after it made a refund, which its order shows. */
    const refunding = (then: (refundId: string) => Promise<void>): CommerceProvider => {
      let units = 3;
      return creating(
        shop.finding(async () => three(units)),
        'refund',
        async (request, signal) => {
          const made = await commerce.create(request, signal);
          units = 2;
          await then(made.id);
          return made;
        },
      );
    };
    beforeEach(async () => {
      shop = shopWithOrder({ pool: db.pool, shopId: await newShop(db.pool) });
      of = await submit();
    });

    test.each([
      ['24.00', ReturnState.CLOSED],
      ['24.01', ReturnState.OPEN],
    ])('counts once what the order shows of %s', async (amount, state) => {
      const lines = [{ providerLineItemId: 1n, quantity: 1, amount: '10.00' }];
      await byAmount(amount, { lines });
      expect(await run(shop.platform(three(2)))).toBe(state);
    });

    test('is not a refund of ours that the platform reported before its answer', async () => {
      const [next] = [await submit(), await submit()];
      const lossy = refunding(async (providerRefundId) => {
        await refundThere(1, { providerRefundId, amount: '10.00' });
        throw new CommerceFailure('passing', 'the answer was lost');
      });
      expect(await run(lossy)).toBe(ReturnState.CLOSED);
      of = next;
      await reportOrder(db.pool, orderOf(of), { quantity: 3 });
      expect(await run(shop.platform(three(2)))).toBe(ReturnState.CLOSED);
    });

    test('waits while another refund of ours may count twice', async () => {
      const b = await submit();
      await byAmount('14.00');
      await requestProcessing(db.pool, of);
      const a = await claimOne(db.pool);
      let during: unknown;
      const platform = refunding(async () => {
        await requestProcessing(db.pool, b);
        const { store } = changeDeps(db.pool);
        const deps = { pool: db.pool, store, providers: onlyProvider(shop.platform(three(2))) };
        during = await prepare(deps, await claimOne(db.pool)).catch((error: unknown) => error);
      });
      await runJob(runDeps(db.pool, platform), a, new AbortController().signal);
      expect(during).toMatchObject({ kind: 'passing' });
      expect((await reload(db.pool, of)).state).toBe(ReturnState.CLOSED);
      await endLeases(db.pool);
      await runDue(runDeps(db.pool, shop.platform(three(2))));
      expect((await reload(db.pool, b)).state).toBe(ReturnState.CLOSED);
    });
  });

  test.each([
    [1, 2],
    [2, 3],
  ])(
    'during look-up %i of a run is looked up before the refund is requested',
    async (at, times) => {
      let asked = 0;
      const provider = shop.finding(async () => {
        asked += 1;
        // Look-up 1 is for the plan.
        const providerRefundId = `R-${asked + 1}`;
        if (asked <= at) await byAmount(asked === at ? '4.01' : '0.00', { providerRefundId });
        return listed(asked <= at ? 1n : 402n);
      });
      await byAmount('0.01');
      expect(await run(provider)).toBe(ReturnState.OPEN);
      expect([asked, await messages()]).toEqual([times, tooMuch('19.98')]);
    },
  );

  test('waits for a platform that does not answer', async () => {
    await byAmount('4.01');
    let asked = 0;
    const provider = shop.finding(async () => {
      asked += 1;
      if (asked === 1) throw new CommerceFailure('passing', 'unavailable');
      return listed(401n);
    });
    expect(await run(provider)).toBe(ReturnState.OPEN);
    expect([asked, await messages()]).toEqual([2, tooMuch('19.99')]);
  });

  test('lowers what the next return gets, also if it was only reported', async () => {
    await byAmount('10.00');
    const eligible = await shop.eligibilityOf(shop.platform(found));
    expect(eligible.lines[0]?.returnableQuantity).toBe(0);
    await cancelReturn(
      storeOf(db.pool),
      create(CancelReturnRequestSchema, { shopId: of.shopId, actor, returnId: of.id }),
    );
    const lines = [{ providerLineItemId: 1n, quantity: 2 }];
    const next = (await shop.submit({ lines }, shop.platform(found))).return;
    expect(next.totals?.refund).toBe('14.00');
  });
});

test('a return of an order that was cancelled at the provider is not processed', async () => {
  await cancelThere();
  expect(await run()).toBe(ReturnState.OPEN);
  expect(await messages()).toEqual([
    'Processing stopped: the order was cancelled at the commerce provider.',
  ]);
  expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
});

describe('the news of our own refund', () => {
  const key = () => effectKey(db.pool, of, 'refund');

  test('is no obstacle and no entry of the timeline, by its key', async () => {
    const reporting = creating(commerce, 'refund', async (request, signal) => {
      const made = await commerce.create(request, signal);
      await refundThere(2, { key: await key(), providerRefundId: made.id });
      throw new CommerceFailure('passing', 'the answer is lost');
    });
    expect(await run(reporting)).toBe(ReturnState.CLOSED);
    expect((await commerce.ordersOf(of.id)).refunds).toHaveLength(1);
    expect(await kinds()).not.toContain('order.refunded_at_provider');
  });

  test('is none before its answer was recorded, without a key', async () => {
    let isFirst = true;
    const reporting = creating(commerce, 'refund', async (request, signal) => {
      const made = await commerce.create(request, signal);
      const { amount } = request;
      if (isFirst) await refundThere(2, { providerRefundId: made.id, amount });
      isFirst = false;
      throw new CommerceFailure('passing', 'the answer is lost');
    });
    expect(await run(reporting)).toBe(ReturnState.CLOSED);
    expect((await commerce.ordersOf(of.id)).refunds).toHaveLength(1);
    expect(await kinds()).not.toContain('order.refunded_at_provider');
  });

  test('is none after it, by the id', async () => {
    expect(await run()).toBe(ReturnState.CLOSED);
    const { rows } = await db.pool.query<{ id: string }>(
      'select provider_id as id from processing_outcomes where shop_id = $1 and return_id = $2',
      [of.shopId, of.id],
    );
    await refundThere(2, { providerRefundId: rows[0]?.id });
    const { shopId, order, lineItems } = of;
    const again = { ...newLine(), providerLineItemId: lineItems[0]?.providerLineItemId ?? 0n };
    const { providerOrderId = 0n, name = '' } = order ?? {};
    await newReturn(db.pool, shopId, {
      order: { providerOrderId, name },
      lines: [{ ...again, quantity: 1, orderedQuantity: 3 }],
    });
  });
});

describe('news that arrive while processing runs', () => {
  test('before the lock of the return stop the run', async () => {
    await requestProcessing(db.pool, of);
    const job = await claimOne(db.pool);
    await refundThere(2);
    await expect(
      prepare({ ...changeDeps(db.pool), providers: onlyProvider(commerce) }, job),
    ).rejects.toThrow('were refunded');
  });

  test('wait for a run that holds the lock, and stop its request', async () => {
    await requestProcessing(db.pool, of);
    const holder = await db.pool.connect();
    await holder.query('begin');
    await holder.query('select from returns where shop_id = $1 and id = $2 for update', [
      of.shopId,
      of.id,
    ]);
    let isRecorded = false;
    const recorded = refundThere(2).then(() => {
      isRecorded = true;
    });
    await until(async (see) => {
      const { rowCount } = await db.pool.query(
        `select from pg_stat_activity where datname = current_database()
          and wait_event_type = 'Lock' and query like '%for no key update%'`,
      );
      return see(rowCount) === 1;
    });
    expect(isRecorded).toBe(false);
    await holder.query('commit');
    holder.release();
    await recorded;
    await runDue(runDeps(db.pool, commerce));
    expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
  });

  test('between two requests stop the second', async () => {
    of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    const reporting = creating(commerce, 'exchange_order', async (request, signal) => {
      const made = await commerce.create(request, signal);
      await refundThere(1);
      return made;
    });
    expect(await run(reporting)).toBe(ReturnState.OPEN);
    const made = await commerce.ordersOf(of.id);
    expect([made.orders.length, made.refunds.length]).toEqual([1, 0]);
    // The exchange order is kept, and the second run decides the same.
    expect(await run()).toBe(ReturnState.OPEN);
    expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
  });

  test('after the last payment do not stop the restock', async () => {
    const shopId = await newShop(db.pool, { restockMode: RestockMode.PROVIDER });
    of = await newReturn(db.pool, shopId, { lines: [newLine()] });
    const reporting = creating(commerce, 'refund', async (request, signal) => {
      const made = await commerce.create(request, signal);
      await cancelThere();
      return made;
    });
    expect(await run(reporting)).toBe(ReturnState.CLOSED);
    const { rows } = await db.pool.query<{ kind: string }>(
      `select kind from processing_outcomes where shop_id = $1 and done_at is not null`,
      [shopId],
    );
    expect(rows.map(({ kind }) => kind).toSorted()).toEqual(['refund', 'restock']);
  });

  test('after an unknown outcome stop the repeat, and not the search', async () => {
    const losing = creating(commerce, 'refund', async () => {
      await refundThere(2, { amount: '99.00' });
      throw new CommerceFailure('passing', 'the request is lost');
    });
    expect(await run(losing)).toBe(ReturnState.OPEN);
    expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
    expect(await messages()).toEqual([expect.stringContaining('were refunded at the commerce')]);
  });
});
