import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Outcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import {
  firstLine,
  invalid,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';
import { sumsOf } from '../../platform/values/money.ts';
import { EXCHANGE_AMOUNTS, LINE_AMOUNTS, lineRefunds, refundOf, totalsOf } from './totals.ts';

describe('bounds', () => {
  // A return refunds at most what was paid. The lines here cost 20.00 pounds.
  let bench: ReturnsBench;
  beforeAll(async () => {
    bench = await startReturnsBench();
  });
  afterAll(() => bench.stop());

  type Submission = Parameters<ReturnsBench['submitError']>[1];
  type Edit = Omit<Parameters<ReturnsBench['client']['editReturn']>[0], '$typeName'>;

  const pounds = (shop: string) => ({ shop });
  const refused = async (more: Submission) => bench.submitError(await bench.shop(), more);
  const editOf = ({ shopId, id: returnId, revision: expectedRevision }: Return, more: Edit) =>
    bench.client.editReturn({ shopId, actor, returnId, expectedRevision, ...more });
  const editRefused = (of: Return, more: Edit) => refusal(editOf(of, more));

  describe('a line item refunds at most what it cost', () => {
    const inYen = { shop: '20', presentment: '3100' };
    const rows: [string, Parameters<typeof line>[0], string][] = [
      ['goods above the price', { refundItem: pounds('20.01') }, 'refund_item'],
      [
        'goods above the price after the discount',
        { discount: pounds('5'), refundItem: pounds('15.01') },
        'refund_item',
      ],
      ['tax without tax', { refundItem: pounds('20'), refundTax: pounds('0.01') }, 'refund_tax'],
      ['tax above the tax', { tax: pounds('4'), refundTax: pounds('4.01') }, 'refund_tax'],
    ];

    test.each(rows)('in a submission: %s', async (_, more, field) => {
      expect(await refused({ lines: [line(), line(more)] })).toEqual(invalid(`lines[1].${field}`));
    });

    test.each(rows)('in an edit: %s', async (_, more, field) => {
      const submitted = await bench.submit(await bench.shop());
      const { discount, tax, refundItem, refundTax } = more ?? {};
      const amounts = { discount, tax, refundItem, refundTax };
      const changes = [{ lineItemId: firstLine(submitted), ...amounts }];
      expect(await editRefused(submitted, { changes })).toEqual(invalid(`changes[0].${field}`));
      expect(await bench.read(submitted)).toEqual(submitted);
    });

    test('in the currency of the shopper alone', async () => {
      const lines = [line({ price: inYen, refundItem: { shop: '20', presentment: '3101' } })];
      expect(await refused({ presentmentCurrency: 'JPY', lines })).toEqual(
        invalid('lines[0].refund_item'),
      );
    });

    test('and may refund exactly that', async () => {
      const paid = { tax: pounds('4'), refundItem: pounds('20'), refundTax: pounds('4') };
      const submitted = await bench.submit(await bench.shop(), { lines: [line(paid)] });
      expect(submitted.lineItems[0]?.amounts?.refund).toBe('24.00');
    });
  });

  describe('the refunds of the line items agree with that of the return', () => {
    test.each([
      ['one line that refunds less', [line({ refundItem: pounds('19.99') })]],
      ['one line without a refund beside one with', [line({ refundItem: pounds('20') }), line()]],
    ])('%s is rejected', async (_, lines) => {
      expect(await refused({ lines })).toEqual(invalid('lines'));
    });

    test('what is not refunded may be a fee or a credit', async () => {
      const lines = [line({ refundItem: pounds('15') })];
      const shopId = await bench.shop();
      const withFee = await bench.submit(shopId, { lines, amounts: { handlingFee: pounds('5') } });
      expect(withFee.totals).toMatchObject({ refund: '15.00', handlingFee: '5.00' });
      const mixed = {
        outcome: Outcome.EXCHANGE_REFUND,
        lines: [line({ refundItem: pounds('15') })],
        exchanges: [{ title: 'Hat', price: pounds('5') }],
        amounts: { returnCredit: pounds('5') },
      };
      expect((await bench.submit(shopId, mixed)).totals).toMatchObject({ refund: '15.00' });
    });

    test('line items without any refund say nothing', async () => {
      const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
      expect(submitted.totals?.refund).toBe('40.00');
    });

    test('an edit must agree, too, but may change a reason without a word about amounts', async () => {
      const submitted = await bench.submit(await bench.shop(), {
        lines: [line({ refundItem: pounds('15') })],
        amounts: { handlingFee: pounds('5') },
      });
      // As if the amounts of the return had not been compared.
      await bench.db.pool.query(
        'update returns set handling_fee = 0, presentment_handling_fee = 0, refund = 20, presentment_refund = 20 where shop_id = $1 and id = $2',
        [submitted.shopId, submitted.id],
      );
      const lineItemId = firstLine(submitted);
      const amounts = { handlingFee: pounds('0') };
      expect(await editRefused(submitted, { amounts })).toEqual(invalid('lines'));
      const { return: edited } = await editOf(submitted, {
        changes: [{ lineItemId, reason: 'too small' }],
      });
      expect(present(edited).lineItems[0]?.reason).toBe('too small');
    });
  });

  describe('refunded shipping', () => {
    const shipped = (shop: string) => line({ refundShipping: pounds(shop) });

    test('is at most 100 times the goods while it is not known what was paid', async () => {
      const shopId = await bench.shop();
      const lines = [line(), shipped('4000'), shipped('2000.01')];
      expect(await bench.submitError(shopId, { lines })).toEqual(
        invalid('lines[2].refund_shipping'),
      );
      const amounts = { creditShipping: pounds('2000.01') };
      expect(await bench.submitError(shopId, { amounts })).toEqual(
        invalid('amounts.credit_shipping'),
      );
      const submitted = await bench.submit(shopId, { lines: [shipped('2000')] });
      expect(submitted.totals?.refund).toBe('2020.00');
    });

    test('is at most what the order paid, over all its returns that are neither cancelled nor expired', async () => {
      const shopId = await bench.shop();
      const order = { providerOrderId: BigInt(Date.now()), name: '#77' };
      const first = { order, orderShipping: pounds('6'), lines: [shipped('6.01')] };
      expect(await bench.submitError(shopId, first)).toEqual(invalid('lines[0].refund_shipping'));
      const submitted = await bench.submit(shopId, { ...first, lines: [shipped('4')] });
      const second = { order, lines: [shipped('2.01')] };
      expect(await bench.submitError(shopId, second)).toEqual(invalid('lines[0].refund_shipping'));
      const credited = { order, amounts: { creditShipping: pounds('2.01') } };
      expect(await bench.submitError(shopId, credited)).toEqual(invalid('amounts.credit_shipping'));
      await bench.submit(shopId, { order, lines: [shipped('1.50')] });
      const lineItemId = firstLine(submitted);
      const more = (shop: string) => ({ changes: [{ lineItemId, refundShipping: pounds(shop) }] });
      expect(await editRefused(submitted, more('4.51'))).toEqual(
        invalid('changes[0].refund_shipping'),
      );
      const { return: edited } = await editOf(submitted, more('4.50'));
      await bench.end(present(edited), 'cancelled');
      const again = await bench.submit(shopId, { order, lines: [shipped('4.50')] });
      await bench.end(again, 'expired');
      await bench.submit(shopId, { order, lines: [shipped('4.50')] });
    });

    test('is compared in the currency of the shopper, too', async () => {
      const both = (shop: string, presentment: string) => ({ shop, presentment });
      const lines = [line({ price: both('20', '3100'), refundShipping: both('0', '311') })];
      const more = { presentmentCurrency: 'JPY', orderShipping: both('2', '310'), lines };
      expect(await refused(more)).toEqual(invalid('lines[0].refund_shipping'));
    });

    test('is not exceeded by parallel submissions', async () => {
      const shopId = await bench.shop();
      const order = { providerOrderId: BigInt(Date.now()) + 1n, name: '#78' };
      const calls = await Promise.allSettled(
        Array.from({ length: 6 }, () =>
          bench.submit(shopId, { order, orderShipping: pounds('6'), lines: [shipped('4')] }),
        ),
      );
      expect(calls.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    });
  });
});

describe('the sums of a return', () => {
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
