import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { ExchangeSchema, UpsellPayment } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CheckReturnResponseSchema,
  InstantRefundState,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { sampleReturn } from '../../../../services/contract/sample-return.ts';
import { checkOf } from './check.ts';
import { effectsOf, processRequest } from './effects.ts';

const check = checkOf(undefined);

describe('the dialog of processing', () => {
  test('says what processing would do', () => {
    const sentences = effectsOf({ about: sampleReturn(1n), check });
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
    const about = {
      ...sampleReturn(1n),
      upsellPayment,
      exchanges: [create(ExchangeSchema)],
      exchangeOrders: [],
      presentmentCurrency: 'GBP',
    };
    if (about.presentmentTotals) about.presentmentTotals.upsell = '5.00';
    const [sentence] = effectsOf({ about, check });
    expect(sentence).toBe(`An exchange order with 1 item is placed. ${text}`);
  });

  test('says what an instant refund that the shopper keeps takes from the refund', () => {
    const paid = (value: string, state: InstantRefundState) => ({
      state,
      money: { value, currency: 'GBP' },
    });
    const instantRefunds = [
      paid('8.00', InstantRefundState.RETURNED),
      paid('5.00', InstantRefundState.CHARGED),
    ];
    const kept = checkOf(create(CheckReturnResponseSchema, { instantRefunds }));
    expect(effectsOf({ about: sampleReturn(1n), check: kept })[0]).toMatch(
      /method, less 8\.00 GBP that was paid before the goods arrived\.$/,
    );
  });

  test('says the amounts of the units that are paid, when that is not all', () => {
    const presentmentTotals = { refund: '1.50' };
    const paidPart = { totals: { refund: '1.00' }, presentmentTotals };
    const less = checkOf(create(CheckReturnResponseSchema, { paidPart }));
    expect(effectsOf({ about: sampleReturn(1n), check: less })[0]).toMatch(/^1\.50 .* is refunded/);
  });

  test('processes the return only as it is shown', () => {
    const about = { ...sampleReturn(1n), revision: 7n };
    expect(processRequest(about)).toEqual({ returnId: about.id, expectedRevision: 7n });
  });
});

test('the page says before why a return would not be processed or cancelled', () => {
  const process = { result: { case: 'skippedInstantRefund', value: {} } } as const;
  const cancelRefusal = 'part of the return was already paid';
  expect(checkOf(create(CheckReturnResponseSchema, { process, cancelRefusal }))).toMatchObject({
    processingRefused: expect.stringMatching(/instant refund is still open/),
    cancelRefused: 'Part of the return was already paid.',
  });
});
