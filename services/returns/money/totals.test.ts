import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { sumsOf } from '../../platform/money.ts';
import { EXCHANGE_AMOUNTS, LINE_AMOUNTS, lineRefunds, refundOf, totalsOf } from './totals.ts';

const sum = fc.bigInt({ min: 0n, max: 10n ** 14n });
/** Any sums of these names. */
const anySums = <K extends string>(names: readonly K[]) =>
  fc
    .array(sum, { minLength: names.length, maxLength: names.length })
    .map((sums) => sumsOf(names, (name) => sums[names.indexOf(name)] ?? 0n));
const exchange = anySums(EXCHANGE_AMOUNTS);
const line = anySums(LINE_AMOUNTS);
const given = fc.record({
  creditShipping: sum,
  returnCredit: sum,
  handlingFee: sum,
});
const anyReturn = fc.record({
  lines: fc.array(line, { minLength: 1 }),
  exchanges: fc.array(exchange),
  given,
});

function derive(o: {
  lines: Parameters<typeof totalsOf>[0];
  exchanges: Parameters<typeof totalsOf>[1];
  given: Omit<Parameters<typeof totalsOf>[2], 'refund'>;
}) {
  const refund = refundOf(o.lines, o.given);
  return totalsOf(o.lines, o.exchanges, { ...o.given, refund });
}

describe('the sums of a return', () => {
  test('refund, credit and fee add up to goods, shipping and credited shipping', () => {
    fc.assert(
      fc.property(anyReturn, (one) => {
        const totals = derive(one);
        expect(totals.refund + totals.returnCreditTotal + totals.handlingFee).toBe(
          totals.returnTotal + totals.returnShippingTotal + totals.creditShippingTotal,
        );
      }),
    );
  });

  test('return and exchange totals are product minus discount plus tax', () => {
    fc.assert(
      fc.property(anyReturn, (one) => {
        const t = derive(one);
        expect(t.returnTotal).toBe(t.returnProductTotal - t.returnDiscountTotal + t.returnTaxTotal);
        expect(t.exchangeTotal).toBe(
          t.exchangeProductTotal - t.exchangeDiscountTotal + t.exchangeTaxTotal,
        );
      }),
    );
  });

  test('credit pays the exchange first; a missing amount is the upsell, the rest is a gift card', () => {
    fc.assert(
      fc.property(anyReturn, (one) => {
        const t = derive(one);
        fc.pre(t.exchangeTotal >= 0n);
        expect(t.exchangeCreditTotal + t.giftCard).toBe(t.returnCreditTotal);
        expect(t.exchangeCreditTotal + t.upsell).toBe(t.exchangeTotal);
        expect(t.upsell === 0n || t.giftCard === 0n).toBe(true);
        expect(t.upsell >= 0n && t.giftCard >= 0n).toBe(true);
      }),
    );
  });

  test('the total is goods and shipping minus the fee', () => {
    fc.assert(
      fc.property(anyReturn, (one) => {
        const t = derive(one);
        expect(t.total).toBe(t.returnTotal + t.refundShippingTotal - t.handlingFee);
        expect(t.returnShippingTotal).toBe(t.refundShippingTotal);
        expect(t.returnShippingTaxTotal).toBe(t.refundShippingTaxTotal);
      }),
    );
  });

  test('the refund of a line is goods, their tax and shipping, which includes its tax', () => {
    fc.assert(
      fc.property(line, (one) => {
        const refunds = lineRefunds(one);
        expect(refunds.refund).toBe(one.refundItem + one.refundTax + one.refundShipping);
        expect(refunds.refundExcludingShipping).toBe(one.refundItem + one.refundTax);
        expect(refunds.refundExcludingShippingTax).toBe(refunds.refund - one.refundShippingTax);
      }),
    );
  });
});
