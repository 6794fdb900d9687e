import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { returnDetails } from '../../services/contract/details/return-details.ts';
import { minor, sum } from '../kit/journeys/amounts.ts';
import { anyAmounts, submissionOf } from '../kit/journeys/any-amounts.ts';
import { startPartner, verified } from '../kit/journeys/hooks.ts';
import { callIn, firstOf, type Journey, startJourney } from '../kit/journeys/journey.ts';

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

const SECONDS = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;

const detailsOf = (id: number) => find(`return_id=${id}`).then(({ body }) => body as Fields);
const find = (query: string) =>
  journey.send({ path: `/api/2026-10/warehouse/return/details?${query}` });

describe('return details: the selectors', () => {
  test("the id, our order id, the provider's order id and the order name find the same return", async () => {
    const ref = firstOf(journey.stack.shop, 'open');
    const name = encodeURIComponent(ref.order_name);
    const queries = [
      `return_id=${ref.id}`,
      `order_id=${ref.order_id}`,
      `order_id=${ref.provider_order_id}`,
      `provider_order_id=${ref.provider_order_id}`,
      `order_name=${name}`,
      `order_name=${name}&unknown=1&unknown=2`,
    ];
    for (const query of queries) {
      expect(await find(query)).toMatchObject({ status: 200, body: { id: ref.id } });
    }
  });

  test('the selector of an order finds the newest of its two returns', async () => {
    const { fixtures } = journey.stack.shop;
    const ref = firstOf(journey.stack.shop, 'order_with_two_returns');
    const { returns } = await journey.services.returns.searchReturns({
      ...callIn(journey.stack.shop),
      query: ref.order_name,
    });
    expect(returns.filter(({ order }) => order?.name === ref.order_name)).toHaveLength(2);
    for (const query of [
      `order_id=${ref.provider_order_id}`,
      `order_name=${encodeURIComponent(ref.order_name)}`,
    ]) {
      expect((await find(query)).body).toMatchObject({ id: ref.id });
    }
    expect(fixtures.returns.order_with_two_returns).toHaveLength(1);
  });
});

describe('return details: the shape', () => {
  const kinds = ['open', 'closed', 'two_currencies', 'zero_decimals', 'two_labels', 'no_label'];

  test.each([...kinds, 'graded', 'uploads', 'warranty', 'exchange', 'gift_card', 'expired'])(
    'has every key: %s',
    async (fixture) => {
      const body = await detailsOf(firstOf(journey.stack.shop, fixture).id);
      expect(returnDetails.strict().parse(body)).toEqual(body);
      expect(body.created_at).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
      expect(body.edited_at).toBeNull();
      expect(typeof body.destination_id).toBe('string');
    },
  );

  test('labels are listed oldest first, with the newest at the top level, in minor units and as an amount', async () => {
    const body = await detailsOf(firstOf(journey.stack.shop, 'two_labels').id);
    const { labels } = body as { labels: readonly Record<string, unknown>[] };
    expect(labels).toHaveLength(2);
    expect(labels[1]).toMatchObject({ tracking_number: body.tracking_number, rate: 490 });
    expect(labels[0]?.tracking_number).not.toBe(body.tracking_number);
    expect(body).toMatchObject({
      carrier: 'Sample Post',
      label_status: 'new',
      label_rate: '4.90',
      label_updated_at: expect.stringMatching(SECONDS),
      label_url: labels[1]?.url,
    });
  });

  test('without a label all label fields are null', async () => {
    expect(await detailsOf(firstOf(journey.stack.shop, 'no_label').id)).toMatchObject({
      carrier: null,
      label_status: null,
      label_updated_at: null,
      label_url: null,
      label_rate: null,
      tracking_number: null,
      labels: [],
    });
  });

  test('states and types have the documented values', async () => {
    const states = { open: 'open', flagged: 'review', closed: 'closed', cancelled: 'cancelled' };
    for (const [fixture, state] of Object.entries({ ...states, expired: 'expired' })) {
      expect(await detailsOf(firstOf(journey.stack.shop, fixture).id)).toMatchObject({ state });
    }
    const { type } = await detailsOf(firstOf(journey.stack.shop, 'warranty').id);
    expect(type).toBe('warranty');
  });

  test('uploads of the shopper are listed', async () => {
    const body = await detailsOf(firstOf(journey.stack.shop, 'uploads').id);
    const [first, second] = body.line_items as { customer_uploads: unknown }[];
    const upload = { id: expect.any(Number), url: expect.stringContaining('uploads.example.com') };
    expect(first?.customer_uploads).toEqual({
      images: [{ ...upload, source: 'customer', created_at: expect.stringMatching(SECONDS) }],
      media: [{ ...upload, type: 'video', created_at: expect.stringMatching(SECONDS) }],
    });
    expect(second?.customer_uploads).toEqual({ images: [], media: [] });
  });
});

type Fields = Readonly<Record<string, unknown>>;
interface Details extends Fields {
  readonly line_items: readonly Fields[];
  readonly presentment: Fields & { readonly line_items: readonly Fields[] };
}

const read = async (fixture: string, basis?: string) => {
  const { id } = firstOf(journey.stack.shop, fixture);
  const query = `return_id=${id}${basis ? `&currency_type=${basis}` : ''}`;
  const path = `/api/2026-10/warehouse/return/details?${query}`;
  return (await journey.send({ path })).body as Details;
};

const KINDS = ['open', 'closed', 'two_currencies', 'zero_decimals', 'exchange', 'gift_card'];
const BASES = [undefined, 'shop', 'presentment'];
const cases = KINDS.flatMap((kind) => BASES.map((basis) => [kind, basis] as const));

/** Top-level amounts that follow the currency basis. `refund` has its own rule. */
const TOTALS = [
  ...['total', 'exchange', 'gift_card', 'return_product_total', 'return_discount_total'],
  ...['return_tax_total', 'return_total', 'refund_shipping_total', 'refund_shipping_tax_total'],
  ...['return_credit_total', 'handling_fee', 'exchange_product_total', 'exchange_discount_total'],
  ...['exchange_tax_total', 'exchange_total', 'exchange_credit_total', 'upsell'],
];
const LINE_AMOUNTS = [
  ...['price', 'discount', 'tax', 'refund', 'refund_tax', 'refund_item', 'refund_shipping'],
  ...['refund_excluding_shipping', 'refund_shipping_tax', 'refund_excluding_shipping_tax'],
];

describe.each(cases)('the amounts of %s, in the basis %s', (kind, basis) => {
  test('add up exactly', async () => {
    const body = await read(kind, basis);
    const lineSum = (name: string) =>
      body.line_items.reduce((total, line) => total + minor(line[name]), 0n);
    expect(minor(body.return_product_total)).toBe(lineSum('price'));
    expect(minor(body.return_discount_total)).toBe(lineSum('discount'));
    expect(minor(body.return_tax_total)).toBe(lineSum('tax'));
    expect(minor(body.refund_shipping_total)).toBe(lineSum('refund_shipping'));
    expect(minor(body.refund_shipping_tax_total)).toBe(lineSum('refund_shipping_tax'));
    expect(minor(body.return_total)).toBe(
      sum(body, 'return_product_total', 'return_tax_total') - minor(body.return_discount_total),
    );
    expect(minor(body.total)).toBe(
      sum(body, 'return_total', 'refund_shipping_total') - minor(body.handling_fee),
    );
    expect(minor(body.exchange_total)).toBe(
      sum(body, 'exchange_product_total', 'exchange_tax_total') -
        minor(body.exchange_discount_total),
    );
    expect(body.exchange).toBe(body.exchange_total);
    expect(minor(body.upsell)).toBe(minor(body.exchange_total) - minor(body.exchange_credit_total));
    expect(minor(body.gift_card)).toBe(
      minor(body.return_credit_total) - minor(body.exchange_credit_total),
    );
    for (const line of body.line_items) {
      expect(minor(line.refund)).toBe(sum(line, 'refund_item', 'refund_tax', 'refund_shipping'));
      expect(minor(line.refund_excluding_shipping)).toBe(sum(line, 'refund_item', 'refund_tax'));
      expect(minor(line.refund_excluding_shipping_tax)).toBe(
        minor(line.refund) - minor(line.refund_shipping_tax),
      );
      expect(minor(line.refund_shipping_tax)).toBeLessThanOrEqual(minor(line.refund_shipping));
    }
  });

  test('follow the rule of the presentment object', async () => {
    const { presentment } = await read(kind, basis);
    const inPresentment = await read(kind, 'presentment');
    expect(presentment.return_shipping_total).toBe(inPresentment.refund_shipping_total);
    expect(sum(presentment, 'refund', 'return_credit_total', 'handling_fee')).toBe(
      sum(presentment, 'return_total', 'return_shipping_total', 'credit_shipping_total'),
    );
  });
});

describe.each([
  ['two_currencies', 'USD', 2],
  ['zero_decimals', 'JPY', 0],
])('the currency basis of %s', (kind, currency, decimals) => {
  const shaped = (digits: number) => (digits ? /^\d+\.\d{2}$/ : /^\d+$/);

  test('absent and `shop`: shop amounts; `refund` in the presentment currency only when absent', async () => {
    const [absent, shop] = [await read(kind), await read(kind, 'shop')];
    expect({ ...absent, refund: '' }).toEqual({ ...shop, refund: '' });
    expect(absent.refund).toBe(absent.presentment.refund);
    expect(shop.refund).not.toBe(absent.refund);
    for (const name of [...TOTALS, 'refund']) expect(shop[name]).toMatch(shaped(2));
    for (const line of shop.line_items) {
      for (const name of LINE_AMOUNTS) expect(line[name]).toMatch(shaped(2));
    }
  });

  test('`presentment`: the stored presentment amounts on every level', async () => {
    const [body, shop] = [await read(kind, 'presentment'), await read(kind, 'shop')];
    for (const name of [...TOTALS, 'refund']) expect(body[name]).toMatch(shaped(decimals));
    for (const line of body.line_items) {
      for (const name of LINE_AMOUNTS) expect(line[name]).toMatch(shaped(decimals));
    }
    for (const name of ['return_product_total', 'return_total', 'handling_fee', 'refund']) {
      expect(body[name]).toBe(body.presentment[name]);
      expect(body[name]).not.toBe(shop[name]);
    }
    expect(body.presentment).toEqual(shop.presentment);
    expect(body.presentment.line_items).toEqual(
      body.line_items.map(({ line_item_id, price, discount, tax }) => {
        return { line_item_id: String(line_item_id), price, discount, tax };
      }),
    );
  });

  test('does not change the names of the currencies, nor the price of the label', async () => {
    for (const basis of BASES) {
      expect(await read(kind, basis)).toMatchObject({
        currency: 'GBP',
        multi_currency: true,
        label_rate: '4.90',
        labels: [{ rate: 490 }],
        presentment: { currency },
      });
    }
  });
});

test('refunds keep the currency in which they were made, in every basis', async () => {
  for (const basis of BASES) {
    const body = await read('closed', basis);
    expect(body).toMatchObject({
      multi_currency: false,
      refunds: [{ amount: '87.00', currency: 'GBP' }],
    });
  }
});

describe('the rule of the presentment object', () => {
  const expectRule = ({ presentment }: Details, currency: string) => {
    expect(presentment.currency).toBe(currency);
    expect(sum(presentment, 'refund', 'return_credit_total', 'handling_fee')).toBe(
      sum(presentment, 'return_total', 'return_shipping_total', 'credit_shipping_total'),
    );
  };

  test('holds for any amounts, over REST and in webhook payloads', async () => {
    const { shop } = journey.stack;
    const partner = await startPartner(journey, shop);
    const hook = await partner.subscribe('return', 'return.created');
    let count = 0;
    const rule = fc.asyncProperty(anyAmounts, async (one) => {
      const request = { ...callIn(shop), ...submissionOf(one) };
      const id = Number((await journey.services.returns.submitReturn(request)).return?.id);
      for (const basis of ['', '&currency_type=shop', '&currency_type=presentment']) {
        expectRule((await find(`return_id=${id}${basis}`)).body as Details, one.currency);
      }
      count += 1;
      const payload = verified(hook, await partner.nth(hook, count));
      expect(payload.id).toBe(id);
      expectRule(payload as Details, one.currency);
    });
    await fc.assert(rule, { numRuns: 20, endOnFailure: true });
    await partner.stop();
  });
});
