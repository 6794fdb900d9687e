import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { anyAmounts, minor, submissionOf, sum } from '../kit/journeys/any-amounts.ts';
import { partnerForTests, verified } from '../kit/journeys/hooks.ts';
import { callIn, journeyForTests } from '../kit/journeys/journey.ts';

const journey = journeyForTests();
const partner = partnerForTests(journey);

type Fields = Readonly<Record<string, unknown>>;
interface Details extends Fields {
  readonly line_items: readonly Fields[];
  readonly presentment: Fields & { readonly line_items: readonly Fields[] };
}

/** The sums of the interface, in one currency. `refund` has a currency of its own. */
function expectSums(body: Details): void {
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
    sum(body, 'exchange_product_total', 'exchange_tax_total') - minor(body.exchange_discount_total),
  );
  expect(body.exchange).toBe(body.exchange_total);
  expect(sum(body, 'upsell', 'exchange_credit_total')).toBe(minor(body.exchange_total));
  expect(sum(body, 'gift_card', 'exchange_credit_total')).toBe(minor(body.return_credit_total));
  for (const line of body.line_items) {
    expect(minor(line.refund)).toBe(sum(line, 'refund_item', 'refund_tax', 'refund_shipping'));
    expect(minor(line.refund_excluding_shipping)).toBe(sum(line, 'refund_item', 'refund_tax'));
    expect(sum(line, 'refund_excluding_shipping_tax', 'refund_shipping_tax')).toBe(
      minor(line.refund),
    );
    expect(minor(line.refund_shipping_tax)).toBeLessThanOrEqual(minor(line.refund_shipping));
  }
}

/** The rule of the presentment object. */
function expectPresentment({ presentment }: Details, currency: string): void {
  expect(presentment.currency).toBe(currency);
  expect(sum(presentment, 'refund', 'return_credit_total', 'handling_fee')).toBe(
    sum(presentment, 'return_total', 'return_shipping_total', 'credit_shipping_total'),
  );
}

test('the sums and the rule of the presentment object hold for any amounts, over REST and in payloads', async () => {
  const { shop } = journey.stack;
  const hook = await partner.subscribe('return', 'return.created');
  let count = 0;
  const rule = fc.asyncProperty(anyAmounts, async (one) => {
    const request = { ...callIn(shop), ...submissionOf(one) };
    const id = Number((await journey.services.returns.submitReturn(request)).return?.id);
    const read = async (basis: string) => {
      const path = `/api/2026-10/warehouse/return/details?return_id=${id}${basis}`;
      const body = (await journey.send({ path })).body as Details;
      expectSums(body);
      expectPresentment(body, one.currency);
      return body;
    };
    const [absent, , paid] = [
      await read(''),
      await read('&currency_type=shop'),
      await read('&currency_type=presentment'),
    ];
    expect(absent.refund).toBe(absent.presentment.refund);
    expect(absent.presentment.return_shipping_total).toBe(paid.refund_shipping_total);
    expect(absent.presentment.line_items).toEqual(
      paid.line_items.map(({ line_item_id, price, discount, tax }) => {
        return { line_item_id: String(line_item_id), price, discount, tax };
      }),
    );
    count += 1;
    const payload = verified(hook, await partner.nth(hook, count));
    expect(payload.id).toBe(id);
    expectPresentment(payload as Details, one.currency);
  });
  await fc.assert(rule, { numRuns: 20, endOnFailure: true });
});
