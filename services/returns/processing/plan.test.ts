import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  DispositionOutcome,
  type LineItemSchema,
  ReturnMethod,
  ReturnSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  claimOne,
  endLeases,
  exchangeWith,
  newLine,
  newReturn,
  newShop,
  onlyProvider,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
} from '../../../test/kit/services/processing.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { LeaseLost } from '../../platform/leases/leases.ts';
import { claimJobs } from './jobs.ts';
import { planSteps } from './plan.ts';
import { prepare } from './prepare.ts';
import { restockItems } from './restock.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

function details(
  presentmentTotals: Partial<Record<'exchangeTotal' | 'giftCard' | 'refund', string>>,
) {
  const zero = { exchangeTotal: '0.00', giftCard: '0.00', refund: '0.00' };
  return create(ReturnSchema, {
    id: 41n,
    presentmentCurrency: 'EUR',
    presentmentTotals: { ...zero, ...presentmentTotals },
  });
}
const provider = { nonce: 'f00d', giftCardsAreExternal: false, paidMinor: 0n, hasRestock: false };

describe('the plan of processing', () => {
  test('places the exchange order first, then the gift card, then the refund', () => {
    const all = details({ exchangeTotal: '30.00', giftCard: '5.00', refund: '1.20' });
    expect(planSteps({ ...provider, details: all })).toEqual([
      {
        kind: 'exchange_order',
        key: 'rms:return:41:f00d:exchange_order',
        amount: '30.00',
        currency: 'EUR',
      },
      { kind: 'gift_card', key: 'rms:return:41:f00d:gift_card', amount: '5.00', currency: 'EUR' },
      { kind: 'refund', key: 'rms:return:41:f00d:refund', amount: '1.20', currency: 'EUR' },
    ]);
  });

  test('restocks goods after the money, also when no money moves', () => {
    const key = 'rms:return:41:f00d:restock';
    const restock = { kind: 'restock', key, amount: '0', currency: 'EUR' };
    const steps = planSteps({
      ...provider,
      hasRestock: true,
      details: details({ refund: '1.20' }),
    });
    expect(steps.map(({ kind }) => kind)).toEqual(['refund', 'restock']);
    expect(planSteps({ ...provider, hasRestock: true, details: details({}) })).toEqual([restock]);
  });

  test('skips an effect of zero', () => {
    expect(planSteps({ ...provider, details: details({}) })).toEqual([]);
  });

  test('leaves gift cards to the external provider', () => {
    const card = details({ giftCard: '5.00' });
    expect(planSteps({ ...provider, details: card, giftCardsAreExternal: true })).toEqual([]);
  });

  test('refunds only what an instant refund has not paid, and never a negative amount', () => {
    const refund = details({ refund: '10.00' });
    expect(planSteps({ ...provider, details: refund, paidMinor: 350n })).toMatchObject([
      { kind: 'refund', amount: '6.50' },
    ]);
    expect(planSteps({ ...provider, details: refund, paidMinor: 1_000n })).toEqual([]);
    expect(planSteps({ ...provider, details: refund, paidMinor: 5_000n })).toEqual([]);
  });
});

const anyProvider = () => onlyProvider(createEmbeddedCommerce(db.pool));

test('a prepared job has what the provider needs, and no line items, because 24 large returns may be processed concurrently', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
  expect(of.lineItems).toHaveLength(1);
  await requestProcessing(db.pool, of);
  const { details, steps } = await prepare(
    { ...changeDeps(db.pool), providers: anyProvider() },
    await claimOne(db.pool),
  );
  expect(details.lineItems).toEqual([]);
  expect(details).toMatchObject({ id: of.id, order: of.order, exchanges: of.exchanges });
  expect(steps.map(({ kind }) => kind)).toEqual(['exchange_order', 'refund']);
});

test('a prepared refund says which part of a line is shipping, because a refund of shipping does not lower what is left of the line', async () => {
  const amount = (value: string) => ({ shop: value, presentment: value });
  const goods = { price: amount('10.00'), refundItem: amount('10.00') };
  const shipping = { refundShipping: amount('2.50'), refundShippingTax: amount('0.50') };
  const lines = [{ ...newLine(), ...goods, ...shipping }];
  const of = await newReturn(db.pool, await newShop(db.pool), { lines });
  await requestProcessing(db.pool, of);
  const deps = { ...changeDeps(db.pool), providers: anyProvider() };
  const prepared = await prepare(deps, await claimOne(db.pool));
  expect(prepared.lines).toMatchObject([{ refund: '12.50', shipping: '2.50' }]);
});

test('a worker whose job was taken over prepares nothing', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool));
  await requestProcessing(db.pool, of);
  const lost = await claimOne(db.pool);
  await endLeases(db.pool);
  const held = (await claimJobs(db.pool, 10)).find(({ id }) => id === lost.id);
  if (!held) throw new Error('no worker took over the job');
  await expect(prepare({ ...changeDeps(db.pool), providers: anyProvider() }, lost)).rejects.toThrow(
    LeaseLost,
  );
  const { rowCount } = await db.pool.query(
    'select from processing_outcomes where shop_id = $1 and return_id = $2',
    [of.shopId, of.id],
  );
  expect(rowCount).toBe(0);
  expect(
    (await prepare({ ...changeDeps(db.pool), providers: anyProvider() }, held)).steps,
  ).toHaveLength(1);
});

test.each(['1.10', '12345678901234567890', '-0', '1E+2', '7'])(
  'the number %s reaches orders and timeline as it was sent',
  async (number) => {
    const commerce = createEmbeddedCommerce(db.pool);
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('gift card'));
    const details = { n: { value: { case: 'number' as const, value: number } } };
    await requestProcessing(db.pool, submitted, { details });
    await runDue(runDeps(db.pool, commerce));
    const { orders, giftCards } = await commerce.ordersOf(submitted.id);
    const written = [...orders, ...giftCards].map((one) => JSON.stringify(one.additionalDetails));
    expect(written).toEqual([`{"n":${number}}`, `{"n":${number}}`]);
    const queued = (await timelineOf(db.pool, submitted)).find((one) =>
      one.kind.endsWith('queued'),
    );
    expect(queued?.facts).toEqual({ n: number });
  },
);

function restocked(
  line: MessageInitShape<typeof LineItemSchema>,
  returnMethod: ReturnMethod = ReturnMethod.MAIL,
) {
  const details = create(ReturnSchema, {
    returnMethod,
    lineItems: [{ lineItemId: 1n, variantId: 2n, quantity: 3, ...line }],
  });
  return restockItems(details, 70n);
}

const { BACK_TO_STOCK, RESALE_HOLD, RECYCLE, DONATE, MISSING } = DispositionOutcome;

describe('the lines to restock', () => {
  test('are lines that were not assessed, or were assessed as stock', () => {
    expect(restocked({})).toHaveLength(1);
    expect(restocked({ disposition: { outcome: BACK_TO_STOCK } })).toHaveLength(1);
  });

  test.each([RESALE_HOLD, RECYCLE, DONATE, MISSING])(
    'is no line with disposition %s',
    (outcome) => {
      expect(restocked({ disposition: { outcome } })).toEqual([]);
    },
  );

  test('are not lines that the shopper keeps', () => {
    expect(restocked({}, ReturnMethod.KEEP_ITEM)).toEqual([]);
  });

  test.each([
    ['4711', 4711n],
    ['', 70n],
    ['north-wing', 70n],
    ['0', 70n],
    ['9007199254740991', 9007199254740991n],
    ['9007199254740992', 70n],
  ])('goes to the location "%s" of the line only if that is an id', (own, locationId) => {
    expect(restocked({ providerRestockLocationId: own })).toMatchObject([
      { lineItemId: 1n, locationId, variantId: 2n, quantity: 3 },
    ]);
  });
});
