import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { describe, expect, test } from '@jest/globals';
import {
  AutomaticProcessingSchema,
  AutomaticProcessing_Moment as Moment,
  type PolicyFeeSchema,
  PolicySchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  LabelStatus,
  Outcome,
  ReturnMethod,
  ReturnSchema,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type FeeFacts, feeOf, processesAt, reviewReasons } from './policy.ts';

describe('the fee of a return', () => {
  const facts: FeeFacts = {
    returnMethod: ReturnMethod.MAIL,
    outcome: Outcome.REFUND,
    isDearer: false,
    reasons: ['too_small'],
    currencies: { shop: 'EUR', presentment: 'JPY' },
    goods: { shop: 10_010n, presentment: 16_017n },
    payable: { shop: 10_010n, presentment: 16_017n },
  };
  type Fee = MessageInitShape<typeof PolicyFeeSchema>;
  const amount = (value: string): Fee => ({ fee: { case: 'amount', value } });
  const percentage = (value: string): Fee => ({ fee: { case: 'percentage', value } });
  const fee = (fees: Fee[], more: Partial<FeeFacts> = {}) =>
    feeOf(create(PolicySchema, { fees }), { ...facts, ...more });
  const none = { shop: 0n, presentment: 0n };

  test('is that of the first entry with its method and outcome', () => {
    const fees = [
      { ...amount('1.00'), returnMethod: ReturnMethod.IN_STORE },
      { ...amount('2.00'), outcome: Outcome.EXCHANGE },
      { ...amount('3.00'), returnMethod: ReturnMethod.MAIL },
      amount('4.00'),
    ];
    expect(fee(fees).shop).toBe(300n);
    expect(fee(fees, { returnMethod: ReturnMethod.DROP_OFF }).shop).toBe(400n);
    expect(fee(fees, { outcome: Outcome.EXCHANGE }).shop).toBe(200n);
    expect(fee([{ ...amount('2.00'), outcome: Outcome.EXCHANGE }])).toEqual(none);
    expect(fee([])).toEqual(none);
  });

  test('of the outcome upsell is that of an exchange for something dearer', () => {
    const fees = [
      { ...amount('2.00'), outcome: Outcome.UPSELL },
      { ...amount('3.00'), outcome: Outcome.EXCHANGE },
    ];
    expect(fee(fees, { outcome: Outcome.EXCHANGE, isDearer: true }).shop).toBe(200n);
    expect(fee(fees, { outcome: Outcome.EXCHANGE }).shop).toBe(300n);
  });

  test('is a percentage of the goods in each currency, rounded half up', () => {
    // 2.5 % of 100.10 is 2.5025, and of 16,017 yen 400.425. 0.5 % of 16,100 yen is 80.5.
    expect(fee([percentage('2.5')])).toEqual({ shop: 250n, presentment: 400n });
    const goods = { shop: 10_010n, presentment: 16_100n };
    expect(fee([percentage('0.5')], { goods }).presentment).toBe(81n);
    expect(fee([percentage('0.15')], { goods: { shop: 1_000n, presentment: 1_000n } }).shop).toBe(
      2n,
    );
  });

  test('is an amount in the shop currency, converted by the ratio of the order', () => {
    expect(fee([amount('4.95')])).toEqual({ shop: 495n, presentment: 792n });
    const rate = { shop: 2n, presentment: 3n };
    expect(fee([amount('0.03')], { rate })).toEqual({ shop: 3n, presentment: 5n });
    const currencies = { shop: 'EUR', presentment: 'EUR' };
    expect(fee([amount('4.95')], { currencies, rate: none })).toEqual({
      shop: 495n,
      presentment: 495n,
    });
  });

  test('is at most refund and credit together, in both currencies', () => {
    expect(fee([amount('500.00')])).toEqual(facts.payable);
    expect(fee([amount('5.00')], { payable: none })).toEqual(none);
    const payable = { shop: 496n, presentment: 790n };
    expect(fee([amount('4.95')], { payable })).toEqual(payable);
    expect(fee([amount('4.95')], { goods: none })).toEqual(none);
  });

  test('is waived when the reason of each line item waives it', () => {
    const policy = create(PolicySchema, {
      fees: [amount('5.00')],
      reasons: [{ code: 'defect', waivesFee: true }, { code: 'too_small' }],
    });
    expect(feeOf(policy, { ...facts, reasons: ['defect', 'defect'] })).toEqual(none);
    expect(feeOf(policy, { ...facts, reasons: ['defect', 'too_small'] }).shop).toBe(500n);
    expect(feeOf(policy, { ...facts, reasons: [] }).shop).toBe(500n);
  });
});

describe('the review of a new return', () => {
  const facts = {
    goods: 50_001n,
    currency: 'EUR',
    reasons: ['defect', 'too_small'],
    returnsOfShopper: 4,
    hasFraudReport: true,
  };
  const reasonsFor = (review: MessageInitShape<typeof PolicySchema>['review'], more = {}) =>
    reviewReasons(create(PolicySchema, { review }), { ...facts, ...more });

  test('has one flag reason for each condition that is met', () => {
    const all = {
      valueAbove: '500.00',
      reasons: ['defect'],
      returnsAbove: 3,
      returnsDays: 30,
      fraudReport: true,
      missing: true,
    };
    expect(reasonsFor(all)).toEqual([
      'The goods are worth more than 500.00 EUR',
      'A line item has the reason defect',
      'More than 3 returns of this e-mail address in 30 days',
      'This e-mail address has a fraud report',
    ]);
  });

  test('does not happen at the limits, and not without conditions', () => {
    expect(reasonsFor({ valueAbove: '500.01' })).toEqual([]);
    expect(reasonsFor({ returnsAbove: 4, returnsDays: 1 })).toEqual([]);
    expect(reasonsFor({ reasons: ['other'] })).toEqual([]);
    expect(reasonsFor({ fraudReport: true }, { hasFraudReport: false })).toEqual([]);
    expect(reasonsFor(undefined)).toEqual([]);
  });
});

describe('processing without a person', () => {
  const arrivedAt = timestampFromDate(new Date('2026-11-01T10:00:00Z'));
  const labelOf = (status: LabelStatus, ...lineItemIds: bigint[]) => ({ status, lineItemIds });
  type Init = Exclude<MessageInitShape<typeof ReturnSchema>, { $unknown?: unknown }>;
  const details = (init: Init = {}) =>
    create(ReturnSchema, {
      state: ReturnState.OPEN,
      currency: 'EUR',
      presentmentCurrency: 'EUR',
      totals: {
        refund: '60.00',
        returnCreditTotal: '40.00',
        creditShippingTotal: '0.00',
        handlingFee: '0.00',
      },
      lineItems: [
        { lineItemId: 1n, quantity: 2 },
        { lineItemId: 2n, quantity: 1 },
      ],
      ...init,
    });
  const processes = (moment: Moment, init?: Init, upTo = '') =>
    processesAt(create(AutomaticProcessingSchema, { moment, upTo }), details(init));
  const inTransit = { labels: [labelOf(LabelStatus.IN_TRANSIT, 1n, 2n)] };

  test('waits for the parcels of all line items', () => {
    const { IN_TRANSIT, DELIVERED } = Moment;
    expect(processes(IN_TRANSIT)).toBe(false);
    expect(processes(IN_TRANSIT, { labels: [labelOf(LabelStatus.PRE_TRANSIT, 1n, 2n)] })).toBe(
      false,
    );
    expect(processes(IN_TRANSIT, { labels: [labelOf(LabelStatus.DELIVERED, 1n)] })).toBe(false);
    expect(processes(IN_TRANSIT, inTransit)).toBe(true);
    expect(processes(DELIVERED, inTransit)).toBe(false);
    const both = [labelOf(LabelStatus.DELIVERED, 1n), labelOf(LabelStatus.DELIVERED, 2n)];
    expect(processes(DELIVERED, { labels: both })).toBe(true);
  });

  test('waits for all announced units', () => {
    const lines = (first: number, second: number) => ({
      lineItems: [
        { lineItemId: 1n, quantity: 2, arrivedQuantity: first, returnedAt: arrivedAt },
        { lineItemId: 2n, quantity: 1, arrivedQuantity: second },
      ],
    });
    expect(processes(Moment.ARRIVED, lines(1, 1))).toBe(false);
    expect(processes(Moment.ARRIVED, lines(2, 0))).toBe(false);
    expect(processes(Moment.ARRIVED, lines(2, 1))).toBe(true);
    // What has arrived was delivered, whatever the carrier says.
    expect(processes(Moment.DELIVERED, lines(2, 1))).toBe(true);
    const whole = { lineItems: [{ lineItemId: 1n, quantity: 2, returnedAt: arrivedAt }] };
    expect(processes(Moment.ARRIVED, whole)).toBe(true);
    expect(processes(Moment.ARRIVED, { lineItems: [] })).toBe(false);
  });

  test('waits for the gradings of all line items', () => {
    const graded = (...conditions: object[]) => ({
      lineItems: conditions.map((condition, n) => ({ lineItemId: BigInt(n + 1), condition })),
    });
    expect(processes(Moment.GRADED, graded({ grade: 'a' }, { images: ['https://a'] }))).toBe(false);
    expect(processes(Moment.GRADED, graded({ grade: 'a' }, { categoryName: 'junk' }))).toBe(true);
  });

  test('happens up to the amount, only when the return is open, and never by hand', () => {
    expect(processes(Moment.IN_TRANSIT, inTransit, '100.00')).toBe(true);
    expect(processes(Moment.IN_TRANSIT, inTransit, '99.99')).toBe(false);
    for (const state of [ReturnState.REVIEW, ReturnState.CLOSED, ReturnState.EXPIRED]) {
      expect(processes(Moment.IN_TRANSIT, { ...inTransit, state })).toBe(false);
    }
    expect(processes(Moment.MANUAL, inTransit)).toBe(false);
  });
});
