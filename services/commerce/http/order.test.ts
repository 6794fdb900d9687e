import { describe, expect, test } from '@jest/globals';
import { type AnsweredOrder, doubtsOf, foundOrder, problemsOfOrder } from './order.ts';
import { orderAnswer } from './protocol.ts';

type Line = AnsweredOrder['lines'][number];

const both = (amount: string) => ({ shop: amount, presentment: amount });
const MUGS: Line = { line_item_id: 9001, title: 'Mug', quantity: 3, returnable: 3 };
/** An order in dollars with one line of three mugs. */
const order = (line: Partial<Line>, more: Partial<AnsweredOrder> = {}): AnsweredOrder => ({
  id: 445,
  name: '#1001',
  currency: 'USD',
  presentment_currency: 'USD',
  lines: [{ ...MUGS, ...line }],
  ...more,
});
const paidIn = (line: Partial<Line>) => foundOrder(order(line)).lines[0]?.paid.shop;

describe('what was paid for a line', () => {
  const total = both('20.00');
  test.each<[string, Partial<Line>, readonly [bigint, bigint, bigint]]>([
    ['a total', { paid: { total } }, [2_000n, 0n, 0n]],
    ['a total with tax', { paid: { total, tax: both('1.50') } }, [1_850n, 0n, 150n]],
    ['a total with a discount', { paid: { total, discount: both('4') } }, [2_400n, 400n, 0n]],
    [
      'tax on top of prices',
      { paid: { total, gross: both('22.5'), discount: both('4'), tax: both('1.5') } },
      [2_250n, 400n, 150n],
    ],
    [
      'tax in prices',
      { paid: { total, gross: both('24'), discount: both('4'), tax: both('1.5') } },
      [2_250n, 400n, 150n],
    ],
    ['a rounded price of one unit', { unit_price: both('6.67') }, [2_001n, 0n, 0n]],
    ['an exact price of one unit', { unit_price: both('6.666667') }, [2_000n, 0n, 0n]],
  ])('is %s', (_, line, [price, discount, tax]) => {
    expect(problemsOfOrder(order(line))).toEqual([]);
    expect(paidIn(line)).toEqual({ price, discount, tax });
  });

  test.each<[string, Partial<Line>]>([
    ['contradicts paid.total', { paid: { total }, unit_price: both('6.60') }],
    ['contradicts paid.total', { paid: { total }, unit_price: both('18.52') }],
    ['is not gross', { paid: { total, gross: both('22.00') } }],
    ['is not gross', { paid: { total, gross: both('22.00'), tax: both('1.50') } }],
    ['tax is more than paid.total', { paid: { total, tax: both('20.01') } }],
    ['left.total is more', { paid: { total }, left: { units: 3, total: both('20.01') } }],
    ['has 2 decimals', { paid: { total: both('20.005') } }],
  ])('has a problem: %s', (problem, line) => {
    expect(problemsOfOrder(order(line))[0]).toContain(problem);
  });

  test.each<[string, Partial<AnsweredOrder>]>([
    ['two lines have the same', { lines: [MUGS, MUGS] }],
    ['shipping.left 5.01 is more', { shipping: { paid: both('5'), left: both('5.01') } }],
    [
      'the shipping of refunds is more',
      {
        shipping: { paid: both('5'), left: both('4') },
        refunds: [{ id: 'R-1', shipping: both('1.01') }],
      },
    ],
    ['has 2 decimals', { refunds: [{ id: 'R-1', other: both('1.001') }] }],
    ['5 and 4 differ', { shipping: { paid: { shop: '5', presentment: '4' } } }],
  ])('is no order of which %s', (problem, more) => {
    expect(problemsOfOrder(order({ paid: { total } }, more))[0]).toContain(problem);
  });

  test.each(['6.66', '6.67', '6.666667'])('fits the price %s of one unit', (price) => {
    expect(problemsOfOrder(order({ paid: { total }, unit_price: both(price) }))).toEqual([]);
  });

  test('must be stated', () => {
    expect(orderAnswer.safeParse({ order: order({}) }).error?.message).toContain(
      'unit_price or paid',
    );
  });
});

describe('the units that may come back', () => {
  const unit_price = both('6.66');
  test.each<[Partial<Line>, number]>([
    [{}, 3],
    [{ shipped: 1 }, 1],
    [{ kind: 'product', returnable: 2 }, 2],
    [{ kind: 'gift_card' }, 0],
    [{ kind: 'tip' }, 0],
    [{ kind: 'service' }, 0],
  ])('of %j are %d', (line, returnable) => {
    const found = foundOrder(order({ unit_price, ...line }));
    expect(found.lines[0]?.returnable).toBe(returnable);
  });
});

test('a line has texts that can be stored', () => {
  const { lines } = foundOrder(order({ title: 'Mug\0', sku: 'M\ud800', unit_price: both('6.66') }));
  expect(lines).toMatchObject([{ title: 'Mug\ufffd', sku: 'M\ufffd' }]);
});

test('an order has what was paid for shipping, and what is left of it', () => {
  const shipping = { paid: both('5.00'), left: both('2.50') };
  const line = { unit_price: both('6.66') };
  expect(foundOrder(order(line, { shipping })).shipping).toEqual({
    paid: { shop: 500n, presentment: 500n },
    left: { shop: 250n, presentment: 250n },
  });
  expect(foundOrder(order(line)).shipping).toBeUndefined();
});

test('an order has what refunds of the merchant paid for shipping, and for nothing of it', () => {
  const shipping = { paid: both('5.00') };
  const refunds = [
    { id: 'R-1', shipping: both('2.00') },
    { id: 'R-2', other: both('1.00') },
  ];
  const line = { unit_price: both('6.66') };
  const part = (id: string, minor: bigint) => [
    { id, key: '', value: { shop: minor, presentment: minor } },
  ];
  expect(foundOrder(order(line, { shipping, refunds }))).toMatchObject({
    shipping: { left: { shop: 300n, presentment: 300n }, refunds: part('R-1', 200n) },
    otherRefunds: part('R-2', 100n),
  });
});

test('an order has what policies need, and nothing that the answer does not have', () => {
  const line = {
    unit_price: both('6.66'),
    kind: 'product',
    tags: ['kitchen'],
    variant_title: 'Blue',
    image: 'https://img.example/1',
    shipped: 2,
  } satisfies Partial<Line>;
  const answer = orderAnswer.parse({
    order: order(line, {
      email: 'ada@example.com',
      postal_code: 'N1 1AA',
      shipping_country: 'gb',
      ordered_at: '2026-11-01T10:00:00+01:00',
      fulfilled_at: '2026-11-02T10:00:00Z',
      delivered_at: '2026-11-03T10:00:00Z',
      cancelled_at: null,
    }),
  });
  expect(answer.order && foundOrder(answer.order)).toMatchObject({
    email: 'ada@example.com',
    postalCode: 'N1 1AA',
    shippingCountry: 'GB',
    orderedAt: new Date('2026-11-01T09:00:00Z'),
    fulfilledAt: new Date('2026-11-02T10:00:00Z'),
    deliveredAt: new Date('2026-11-03T10:00:00Z'),
    lines: [
      {
        kind: 'product',
        tags: ['kitchen'],
        variantTitle: 'Blue',
        image: 'https://img.example/1',
        shipped: 2,
      },
    ],
  });
  const found = foundOrder(order({ unit_price: both('6.66') }));
  for (const name of ['email', 'orderedAt', 'cancelledAt']) expect(found).not.toHaveProperty(name);
  for (const name of ['kind', 'tags', 'shipped']) expect(found.lines[0]).not.toHaveProperty(name);
});

describe('what an endpoint says of an order is doubtful', () => {
  const NOW = new Date('2026-11-20T00:00:00Z');
  test.each<[string, Partial<Line>, Partial<AnsweredOrder>]>([
    ['ordered_at is in the future', {}, { ordered_at: '2026-11-21T00:00:00Z' }],
    [
      'delivered_at is before ordered_at',
      {},
      { ordered_at: '2026-11-10T00:00:00Z', delivered_at: '2026-11-09T00:00:00Z' },
    ],
    [
      'cancelled_at is before ordered_at',
      {},
      { ordered_at: '2026-11-10T00:00:00Z', cancelled_at: '2026-11-09T00:00:00Z' },
    ],
    [
      'delivered_at is before fulfilled_at',
      {},
      { fulfilled_at: '2026-11-10T00:00:00Z', delivered_at: '2026-11-09T00:00:00Z' },
    ],
    [
      'delivered_at is stated, and no unit is shipped',
      { shipped: 0 },
      { delivered_at: '2026-11-09T00:00:00Z' },
    ],
    ['line 9001: 4 of 3 units are shipped', { shipped: 4 }, {}],
  ])('%s', (doubt, line, more) => {
    const given = order({ unit_price: both('6.66'), ...line }, more);
    expect(doubtsOf(given, NOW)).toEqual([doubt]);
    expect(problemsOfOrder(given)).toEqual([]);
  });

  test('unless it is at most five minutes ahead', () => {
    const soon = { ordered_at: '2026-11-20T00:04:00Z', delivered_at: '2026-11-20T00:04:00Z' };
    expect(doubtsOf(order({}, soon), NOW)).toEqual([]);
  });
});
