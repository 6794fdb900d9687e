import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  CustomerSchema,
  ExchangeSchema,
  type Return,
  ReturnState,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleReturn } from '../../../services/contract/sample-return.ts';
import type { ReturnCheck } from '../return-check.ts';
import { returnView } from './return.ts';
import { processingEffects } from './return-effects.ts';

const CHECK: ReturnCheck = {
  processingRefused: '',
  cancelRefused: '',
  cancelsOrder: false,
  instantRefunds: [],
};

const view = (ret: Return) =>
  returnView(ret, { destinationName: 'Leeds', possible: [], check: CHECK });

describe('a return in the portal', () => {
  test('has every amount in both currencies, and its labels newest first', () => {
    const shown = view(sampleReturn(1n));
    const [refund] = (shown.amounts ?? []).filter(({ name }) => name === 'refund');
    expect(refund?.amount?.shop).toBe('40.00');
    expect(refund?.amount?.presentment).toMatch(/^\d+\.\d\d$/);
    expect(shown.lines?.[0]?.refund?.shop).toBe('42.00');
    expect(shown.labels?.[0]?.status).toBe(shown.summary?.labelStatus);
  });

  test.each([
    [{ firstName: 'Ada', lastName: 'Lovelace' }, 'Ada Lovelace'],
    [{ firstName: '', lastName: 'Lovelace' }, 'Lovelace'],
    [{}, ''],
  ])('names the shopper %p as the list does', (names, shown) => {
    const customer = create(CustomerSchema, names);
    expect(view({ ...sampleReturn(1n), customer }).summary?.customerName).toBe(shown);
  });

  test('has the share of shipping in the refund of a line item', () => {
    const ret = sampleReturn(1n);
    const amounts = ret.lineItems[0]?.amounts;
    if (amounts) amounts.refundShipping = '3.00';
    expect(view(ret).lines?.[0]?.refundShipping?.shop).toBe('3.00');
  });

  test('says what processing would do', () => {
    const sentences = processingEffects(sampleReturn(1n), CHECK);
    expect(sentences[0]).toMatch(
      /^\d+\.\d\d [A-Z]{3} is refunded to the shopper's original payment method\.$/,
    );
    expect(sentences).toHaveLength(2);
  });

  test.each([
    [
      UpsellPayment.INVOICE,
      'The shopper gets an invoice of 5.00 GBP for it, which is not paid yet.',
    ],
    [UpsellPayment.PREPAID, 'The shopper has already paid 5.00 GBP of it.'],
  ])('says who pays what an exchange costs above the credit (%s)', (upsellPayment, text) => {
    const ret = {
      ...sampleReturn(1n),
      upsellPayment,
      exchanges: [create(ExchangeSchema)],
      exchangeOrders: [],
      presentmentCurrency: 'GBP',
    };
    const { presentmentTotals } = ret;
    if (presentmentTotals) presentmentTotals.upsell = '5.00';
    const [sentence] = processingEffects(ret, CHECK);
    expect(sentence).toBe(`An exchange order with 1 item is placed. ${text}`);
  });

  test.each([ReturnState.CLOSED, ReturnState.REVIEW, ReturnState.CANCELLED])(
    'says nothing about processing in state %s',
    (state) => {
      expect(processingEffects({ ...sampleReturn(1n), state }, CHECK)).toEqual([]);
    },
  );

  test('says nothing about processing that would be refused', () => {
    const check = { ...CHECK, processingRefused: 'The shop has no commerce provider.' };
    expect(processingEffects(sampleReturn(1n), check)).toEqual([]);
  });

  test('says what an instant refund that the shopper keeps takes from the refund', () => {
    const money = { value: '8.00', currency: 'GBP' };
    const instantRefunds = [
      { state: 'returned', money },
      { state: 'charged', money: { value: '5.00', currency: 'GBP' } },
    ];
    expect(processingEffects(sampleReturn(1n), { ...CHECK, instantRefunds })[0]).toMatch(
      /method, less 8\.00 GBP that was paid before the goods arrived\.$/,
    );
  });

  test('shows the refunds that processing made', () => {
    const { effects } = view(sampleReturn(1n, ReturnState.CLOSED));
    expect(effects).toMatchObject([{ kind: 'refund', money: { currency: expect.any(String) } }]);
  });
});
