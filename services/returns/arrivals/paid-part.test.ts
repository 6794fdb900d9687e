import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type Return as Details,
  DispositionOutcome,
  LineItemSchema,
  Outcome,
  ReturnSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { netOf } from '../../platform/values/line-value.ts';
import { type Both, inBoth } from '../../platform/values/money.ts';
import { checkedSums } from '../money/return-sums.ts';
import {
  amountTexts,
  exchangeSumsIn,
  LINE_AMOUNTS,
  type LineSums,
  lineSumsIn,
  refundOf,
  requireWithinCost,
  returnSumsIn,
  returnTotalOf,
  shippingOf,
} from '../money/totals.ts';
import { paidPart, payableUnits } from './paid-part.ts';

describe('the units that are paid', () => {
  const { BACK_TO_STOCK, RECYCLE, MISSING } = DispositionOutcome;
  test.each([
    ['none have arrived', [3, 0, 0], undefined, 0],
    ['some have arrived', [3, 2, 0], undefined, 2],
    ['some of them are damaged', [3, 3, 1], undefined, 2],
    ['a person accepts all', [3, 0, 0], { outcome: RECYCLE }, 3],
    ['a person accepts some', [3, 0, 0], { outcome: BACK_TO_STOCK, quantity: 2 }, 2],
    ['a person accepts the damaged one', [3, 3, 1], { outcome: RECYCLE, quantity: 1 }, 3],
    ['a person accepts one of two damaged', [3, 3, 2], { outcome: RECYCLE, quantity: 1 }, 2],
    ['an assessment is about units that arrived', [3, 2, 0], { outcome: RECYCLE, quantity: 1 }, 2],
    ['a person accepts more than arrived', [4, 2, 1], { outcome: RECYCLE, quantity: 3 }, 3],
    ['the goods are missing', [3, 0, 0], { outcome: MISSING }, 0],
    ['they arrived before they were missed', [3, 2, 0], { outcome: MISSING }, 2],
    ['the line item has fewer units now', [1, 1, 0], { outcome: RECYCLE, quantity: 3 }, 1],
  ] as const)('when %s', (_, [quantity, arrivedQuantity, damagedQuantity], disposition, units) => {
    const counts = { quantity, arrivedQuantity, damagedQuantity };
    const line = create(LineItemSchema, { ...counts, ...(disposition && { disposition }) });
    expect(payableUnits(line)).toBe(units);
  });
});

/** A line item: units, those that are paid, and amounts in both currencies. */
interface Goods {
  readonly quantity: number;
  readonly paid: number;
  readonly sums: Both<LineSums>;
}

const minor = (max: bigint) => fc.bigInt({ min: 0n, max });

/** Amounts that a submission may have, and whose goods are worth at least nothing. */
const anySums: fc.Arbitrary<LineSums> = minor(10n ** 9n).chain((price) =>
  fc
    .record({ discount: minor(price), tax: minor(price), shipping: minor(10_000n) })
    .chain(({ discount, tax, shipping }) =>
      fc.record({
        price: fc.constant(price),
        discount: fc.constant(discount),
        tax: fc.constant(tax),
        refundItem: fc.oneof(fc.constant(price - discount), minor(price - discount)),
        refundTax: fc.oneof(fc.constant(tax), minor(tax)),
        refundShipping: fc.constant(shipping),
        refundShippingTax: minor(shipping),
      }),
    ),
);

const anyGoods: fc.Arbitrary<Goods> = fc.integer({ min: 1, max: 7 }).chain((quantity) =>
  fc.record({
    quantity: fc.constant(quantity),
    paid: fc.integer({ min: 0, max: quantity }),
    sums: fc.record({ shop: anySums, presentment: anySums }),
  }),
);

const anyReturn = fc.record({
  goods: fc.array(anyGoods, { minLength: 1, maxLength: 5 }),
  // Currencies of 0, 2, 3 and 4 decimals.
  shop: fc.constantFrom('JPY', 'GBP', 'KWD', 'CLF'),
  presentment: fc.constantFrom('JPY', 'GBP', 'KWD', 'CLF'),
  creditShipping: minor(5_000n),
  outcome: fc.constantFrom(Outcome.REFUND, Outcome.CREDIT),
  /** Which part of the value the fee is, in hundredths. */
  fee: fc.bigInt({ min: 0n, max: 100n }),
});
type Sample = typeof anyReturn extends fc.Arbitrary<infer T> ? T : never;

function detailsOf({ goods, shop, presentment, creditShipping, outcome, fee }: Sample): Details {
  const currencies = { shop, presentment };
  const totals = inBoth((side) => {
    const lines = goods.map(({ sums }) => sums[side]);
    const all = returnTotalOf(lines) + shippingOf(lines) + creditShipping;
    const least = lines.reduce((sum, one) => sum + one.refundItem + one.refundTax, 0n);
    // The line items refund at least what the return refunds, so what they do not refund is a fee.
    const kept = returnTotalOf(lines) - least;
    const handlingFee = kept + ((all - kept) * fee) / 100n;
    const rest = all - handlingFee;
    const returnCredit = outcome === Outcome.CREDIT ? rest : 0n;
    const sums = { creditShipping, returnCredit, handlingFee };
    const texts = amountTexts({ ...sums, refund: refundOf(lines, sums) }, currencies[side]);
    const { creditShipping: creditShippingTotal, returnCredit: returnCreditTotal, ...own } = texts;
    return { ...own, creditShippingTotal, returnCreditTotal };
  });
  return create(ReturnSchema, {
    currency: shop,
    presentmentCurrency: presentment,
    outcome,
    totals: totals.shop,
    presentmentTotals: totals.presentment,
    lineItems: goods.map(({ quantity, sums }, at) => ({
      lineItemId: BigInt(at + 1),
      quantity,
      amounts: amountTexts(sums.shop, shop),
      presentmentAmounts: amountTexts(sums.presentment, presentment),
    })),
  });
}

const unitsOf = (goods: readonly Goods[]) =>
  new Map(goods.map(({ paid }, at) => [BigInt(at + 1), paid]));

describe('the amounts of the paid units', () => {
  test('are amounts that a submission may have, and at most the announced ones', () => {
    fc.assert(
      fc.property(anyReturn, (sample) => {
        const details = detailsOf(sample);
        const currencies = { shop: sample.shop, presentment: sample.presentment };
        const part = paidPart(details, unitsOf(sample.goods));
        if (!part) throw new Error('there are no amounts');
        const lines = [...part.lines.values()];
        for (const sums of lines) requireWithinCost('lines[0]', sums, currencies);
        const checked = checkedSums({
          outcome: sample.outcome,
          currencies,
          lines,
          exchanges: [],
          amounts: undefined,
          previous: part.sums,
        });
        expect(checked).toMatchObject(part.sums);
        const before = returnSumsIn(details);
        for (const side of ['shop', 'presentment'] as const) {
          const { refund, returnCredit, handlingFee, creditShipping } = part.sums[side];
          expect(refund <= before[side].refund).toBe(true);
          expect(returnCredit <= before[side].returnCredit).toBe(true);
          expect(handlingFee <= before[side].handlingFee).toBe(true);
          expect(creditShipping).toBe(before[side].creditShipping);
          for (const [at, { quantity, paid, sums }] of sample.goods.entries()) {
            const own = lines[at]?.[side];
            if (!own) throw new Error('a line is missing');
            expect(netOf(own)).toBe((netOf(sums[side]) * BigInt(paid)) / BigInt(quantity));
            for (const name of LINE_AMOUNTS) {
              if (name === 'discount' || name === 'refundTax') continue;
              expect(own[name] <= sums[side][name]).toBe(true);
            }
            if (paid === 0) expect(Object.values(own).every((one) => one === 0n)).toBe(true);
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  test('show the return with only its paid units', () => {
    fc.assert(
      fc.property(anyReturn, (sample) => {
        const details = detailsOf(sample);
        const part = paidPart(details, unitsOf(sample.goods));
        const paid = sample.goods.filter((one) => one.paid > 0);
        expect(part?.details.lineItems.map(({ quantity }) => quantity)).toEqual(
          paid.map((one) => one.paid),
        );
        const shown = part && returnSumsIn(part.details);
        expect(shown).toEqual(part?.sums);
        const currencies = { shop: sample.shop, presentment: sample.presentment };
        for (const line of part?.details.lineItems ?? []) {
          expect(lineSumsIn(line, currencies)).toEqual(part?.lines.get(line.lineItemId));
        }
      }),
    );
  });

  test('are the announced ones when all units are paid', () => {
    fc.assert(
      fc.property(anyReturn, (sample) => {
        const details = detailsOf(sample);
        const part = paidPart(details, new Map());
        expect(part?.sums).toEqual(returnSumsIn(details));
        expect(part?.details.lineItems.map(({ amounts }) => amounts?.price)).toEqual(
          details.lineItems.map(({ amounts }) => amounts?.price),
        );
      }),
    );
  });
});

describe('an exchange', () => {
  /** A line item of two units worth 20.00, exchanged for goods of this value. */
  const exchanging = (value: string, o: { readonly credit: string; readonly refund: string }) => {
    const sums = {
      returnCreditTotal: o.credit,
      refund: o.refund,
      handlingFee: '0.00',
      creditShippingTotal: '0.00',
    };
    const none = Object.fromEntries(LINE_AMOUNTS.map((name) => [name, '0.00']));
    const amounts = { ...none, price: '20.00', refundItem: o.refund };
    const price = { shop: value, presentment: value };
    const discount = { shop: '0.00', presentment: '0.00' };
    return create(ReturnSchema, {
      currency: 'GBP',
      presentmentCurrency: 'GBP',
      totals: sums,
      presentmentTotals: sums,
      exchanges: [{ price, discount, tax: discount }],
      lineItems: [{ lineItemId: 1n, quantity: 2, amounts, presentmentAmounts: amounts }],
    });
  };
  const half = new Map([[1n, 1]]);

  test('is paid before the refund', () => {
    const part = paidPart(exchanging('10.00', { credit: '10.00', refund: '10.00' }), half);
    expect(part?.sums.shop).toMatchObject({ returnCredit: 1000n, refund: 0n });
  });

  test('is paid before the gift card', () => {
    const part = paidPart(exchanging('8.00', { credit: '20.00', refund: '0.00' }), half);
    expect(part?.sums.shop).toMatchObject({ returnCredit: 1000n });
    expect(part?.details.totals).toMatchObject({ giftCard: '2.00', upsell: '0.00' });
  });

  test('must not cost the shopper more than was agreed', () => {
    const details = exchanging('20.00', { credit: '20.00', refund: '0.00' });
    expect(exchangeSumsIn(details)).toHaveLength(1);
    expect(paidPart(details, half)).toBeUndefined();
  });
});
