import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  AutomaticProcessing_Moment as Moment,
  type PolicySchema,
  RefundBasis,
  ReturnWindow_Start as Start,
  WithdrawalHandling,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  invalid,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

type Draft = MessageInitShape<typeof PolicySchema>;

const read = (shopId: bigint, version = 0n) => bench.client.getPolicy({ shopId, actor, version });
const update = (shopId: bigint, expectedVersion: bigint, policy: Draft | undefined) =>
  bench.client.updatePolicy({ shopId, actor, expectedVersion, ...(policy && { policy }) });
const window = (days: number) => ({ window: { days, from: Start.DELIVERED } });

describe('a policy', () => {
  test('is empty for a new shop, and has version 0', async () => {
    const { policy, version, updatedAt } = await read(await bench.shop());
    expect(policy).toMatchObject({ exceptions: [], outcomes: [], countries: [], fees: [] });
    expect([policy?.window, policy?.review, policy?.process]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect([version, updatedAt]).toEqual([0n, undefined]);
  });

  test('gets a version with each change, and keeps the earlier ones', async () => {
    const shopId = await bench.shop();
    expect(await update(shopId, 0n, window(30))).toMatchObject({ version: 1n });
    expect(await update(shopId, 1n, window(14))).toMatchObject({ version: 2n });
    expect(await read(shopId)).toMatchObject({ version: 2n, policy: window(14) });
    expect(await read(shopId, 1n)).toMatchObject({ version: 1n, policy: window(30) });
    expect((await read(shopId)).updatedAt).toBeDefined();
    expect(await refusal(read(shopId, 3n))).toMatchObject({ code: Code.NotFound });
    const other = await bench.shop();
    expect(await refusal(read(other, 1n))).toMatchObject({ code: Code.NotFound });
  });

  test('gets no version without a change, also from a repeat with the version before', async () => {
    const shopId = await bench.shop();
    expect(await update(shopId, 0n, {})).toMatchObject({ version: 0n });
    await update(shopId, 0n, window(30));
    expect(await update(shopId, 0n, window(30))).toMatchObject({ version: 1n });
    expect(await update(shopId, 1n, window(30))).toMatchObject({ version: 1n });
  });

  test('is not changed by a caller who has read another version', async () => {
    const shopId = await bench.shop();
    await update(shopId, 0n, window(30));
    for (const expected of [0n, 2n]) {
      expect(await refusal(update(shopId, expected, window(7)))).toEqual({
        code: Code.Aborted,
        reason: 'REVISION_CONFLICT',
        field: 'expected_version',
      });
    }
    expect(await read(shopId)).toMatchObject({ version: 1n });
  });

  test('of many concurrent changes gets one', async () => {
    const shopId = await bench.shop();
    const results = await Promise.allSettled(
      Array.from({ length: 8 }, (_, n) => update(shopId, 0n, window(n + 1))),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await read(shopId)).toMatchObject({ version: 1n });
  });

  test('needs the settings of the shop', async () => {
    expect(await refusal(update(newShop(), 0n, {}))).toMatchObject({
      reason: 'SHOP_NOT_CONFIGURED',
    });
  });
});

describe('the canonical form', () => {
  const stored = async (draft: Draft) => (await update(await bench.shop(), 0n, draft)).policy;

  test('is equal for policies that mean the same', async () => {
    const shopId = await bench.shop();
    const first = await update(shopId, 0n, {
      ...window(30),
      finalSale: { productIds: [2n, 1n, 2n], skus: [' b ', 'a*'], tags: ['x'] },
      countries: ['de', 'AT', 'DE'],
      outcomes: [Outcome.REFUND, Outcome.EXCHANGE],
      returnMethods: [ReturnMethod.MAIL, ReturnMethod.MAIL],
      reasons: [{ code: 'defect', label: { en: 'Defect', de: 'Defekt' } }],
      fees: [
        { fee: { case: 'amount', value: '5' } },
        { fee: { case: 'percentage', value: '2.50' } },
      ],
      review: { valueAbove: '500', reasons: ['defect'] },
      process: { moment: Moment.ARRIVED, upTo: '100.0' },
      refundBasis: RefundBasis.ANNOUNCED,
      withdrawals: WithdrawalHandling.MANUAL,
    });
    expect(first.policy).toMatchObject({
      finalSale: { productIds: [1n, 2n], skus: ['a*', 'b'] },
      countries: ['AT', 'DE'],
      fees: [{ fee: { value: '5.00' } }, { fee: { value: '2.5' } }],
      review: { valueAbove: '500.00' },
      process: { upTo: '100.00' },
      refundBasis: RefundBasis.UNSPECIFIED,
    });
    const again = await update(shopId, 1n, {
      window: { days: 30 },
      finalSale: { productIds: [1n, 2n], skus: ['a*', 'b'], tags: ['x', 'x'] },
      countries: ['AT', 'DE'],
      outcomes: [Outcome.EXCHANGE, Outcome.REFUND],
      returnMethods: [ReturnMethod.MAIL],
      reasons: [{ code: 'defect', label: { de: 'Defekt', en: 'Defect' } }],
      fees: [
        { fee: { case: 'amount', value: '5.00' } },
        { fee: { case: 'percentage', value: '2.5' } },
      ],
      review: { valueAbove: '500.00', reasons: ['defect', 'defect'] },
      process: { moment: Moment.ARRIVED, upTo: '100.00' },
    });
    expect(again.version).toBe(1n);
  });

  test('has no part that does nothing', async () => {
    const nothing = await stored({
      window: { from: Start.ORDERED },
      finalSale: {},
      review: {},
      process: { moment: Moment.MANUAL, upTo: '10.00' },
    });
    expect([nothing?.window, nothing?.finalSale, nothing?.review, nothing?.process]).toEqual(
      Array.from({ length: 4 }),
    );
  });

  test('keeps the order of exceptions, reasons and fees, and an exception without end', async () => {
    const exceptions = [
      { items: { skus: ['b'] }, window: {} },
      { items: { skus: ['a'] }, outcomes: [Outcome.CREDIT] },
    ];
    const draft = { exceptions, ...window(7) };
    expect(await stored(draft)).toMatchObject({
      exceptions: [
        { items: { skus: ['b'] }, window: { from: Start.UNSPECIFIED } },
        { items: { skus: ['a'] }, outcomes: [Outcome.CREDIT] },
      ],
    });
  });
});

describe('an invalid policy', () => {
  const many = <T>(length: number, one: (n: number) => T) =>
    Array.from({ length }, (_, n) => one(n));
  const label = { en: 'x' };
  /** A value of an enum that this release does not know. */
  const UNKNOWN = 99 as never;
  const cases: [string, Draft | undefined][] = [
    ['policy', undefined],
    ['policy.window.days', { window: { days: 3_651 } }],
    ['policy.window.days', { window: { days: -1 } }],
    ['policy.window.from', { window: { days: 1, from: UNKNOWN } }],
    ['policy.final_sale.skus', { finalSale: { skus: many(1_001, String) } }],
    ['policy.final_sale.skus[0]', { finalSale: { skus: ['a*b*'] } }],
    ['policy.final_sale.product_ids[1]', { finalSale: { productIds: [1n, 0n] } }],
    ['policy.exceptions[1].items', { exceptions: [{ items: { tags: ['a'] } }, { items: {} }] }],
    ['policy.exceptions[0].items', { exceptions: [{}] }],
    ['policy.exceptions', { exceptions: many(51, () => ({ items: { tags: ['a'] } })) }],
    ['policy.countries[0]', { countries: ['DEU'] }],
    ['policy.countries[1]', { countries: ['DE', 'UK'] }],
    ['policy.outcomes[0]', { outcomes: [Outcome.UNSPECIFIED] }],
    ['policy.return_methods[0]', { returnMethods: [UNKNOWN] }],
    ['policy.reasons[0].code', { reasons: [{ code: 'Too small', label }] }],
    ['policy.reasons[1].code', { reasons: many(2, () => ({ code: 'a', label })) }],
    ['policy.reasons[0].parent', { reasons: [{ code: 'a', parent: 'a', label }] }],
    ['policy.reasons[0].label', { reasons: [{ code: 'a' }] }],
    ['policy.reasons[0].label.en', { reasons: [{ code: 'a', label: { en: ' ' } }] }],
    ['policy.reasons[0].label', { reasons: [{ code: 'a', label: { English: 'x' } }] }],
    ['policy.fees[0].fee', { fees: [{ outcome: Outcome.REFUND }] }],
    ['policy.fees[0].amount', { fees: [{ fee: { case: 'amount', value: '1.001' } }] }],
    ['policy.fees[0].percentage', { fees: [{ fee: { case: 'percentage', value: '100.01' } }] }],
    ['policy.fees[0].percentage', { fees: [{ fee: { case: 'percentage', value: '0.00' } }] }],
    ['policy.review.value_above', { review: { valueAbove: '-1' } }],
    ['policy.review.reasons', { reasons: [{ code: 'a', label }], review: { reasons: ['b'] } }],
    ['policy.review.returns_days', { review: { returnsAbove: 3 } }],
    ['policy.review.returns_days', { review: { returnsAbove: 3, returnsDays: 366 } }],
    ['policy.review.returns_days', { review: { returnsDays: 3 } }],
    ['policy.process.up_to', { process: { moment: Moment.ARRIVED, upTo: 'x' } }],
    ['policy.process.moment', { process: { moment: UNKNOWN } }],
    ['policy.refund_basis', { refundBasis: UNKNOWN }],
    [
      'policy',
      {
        exceptions: many(50, (n) => ({
          items: { skus: many(1_000, (m) => `${n}-${m}-${'x'.repeat(10)}`) },
        })),
      },
    ],
  ];

  test.each(cases)('is rejected with the path %s', async (field, draft) => {
    expect(await refusal(update(await bench.shop(), 0n, draft))).toEqual(invalid(field));
  });
});
