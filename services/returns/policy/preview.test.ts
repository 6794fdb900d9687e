import type { MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  AutomaticProcessing_Moment as Moment,
  type PolicySchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  DispositionOutcome,
  LabelStatus,
  Outcome,
  PolicyUse,
  type Return,
  ReturnMethod,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line, type SubmissionPart } from '../../../test/kit/builders.ts';
import {
  firstLine,
  invalid,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

type Draft = MessageInitShape<typeof PolicySchema>;

const preview = (shopId: bigint, policy: Draft) =>
  bench.client.previewPolicy({ shopId, actor, policy });

/** The ids of the examples for each decision. */
async function decided(shopId: bigint, policy: Draft) {
  const { refused, reviewed, processed, notJudged } = await preview(shopId, policy);
  const ids = (part: typeof refused) => part?.examples.map(({ returnId }) => returnId);
  return {
    refused: ids(refused),
    reviewed: ids(reviewed),
    processed: ids(processed),
    notJudged: ids(notJudged),
  };
}

const NOTHING = { refused: [], reviewed: [], processed: [], notJudged: [] };

describe('the preview of a policy', () => {
  let shopId: bigint;
  let plain: Return;
  const submit = (more: SubmissionPart = {}) => bench.submit(shopId, more);
  beforeAll(async () => {
    shopId = await bench.shop();
    plain = await submit();
  });

  test('of an empty draft allows everything, and writes nothing', async () => {
    const { judged, more } = await preview(shopId, {});
    expect([judged >= 1, more]).toEqual([true, false]);
    expect(await decided(shopId, {})).toEqual(NOTHING);
    expect(await bench.client.getPolicy({ shopId, actor })).toMatchObject({ version: 0n });
  });

  test('says which returns would have been refused', async () => {
    shopId = await bench.shop();
    plain = await submit();
    const inStore = await submit({ returnMethod: ReturnMethod.IN_STORE });
    const credit = await submit({
      outcome: Outcome.CREDIT,
      amounts: { returnCredit: { shop: '20.00' } },
    });
    const sale = await submit({ lines: [line({ sku: 'SALE-1', productId: 5n })] });
    expect(await decided(shopId, { returnMethods: [ReturnMethod.MAIL] })).toEqual({
      ...NOTHING,
      refused: [inStore.id],
    });
    expect((await decided(shopId, { outcomes: [Outcome.REFUND] })).refused).toEqual([credit.id]);
    expect((await decided(shopId, { finalSale: { skus: ['SALE-*'] } })).refused).toEqual([sale.id]);
    expect((await decided(shopId, { finalSale: { productIds: [5n] } })).refused).toEqual([sale.id]);
    const exceptions = [{ items: { skus: ['SALE-1'] }, outcomes: [Outcome.EXCHANGE] }];
    expect((await decided(shopId, { exceptions })).refused).toEqual([sale.id]);
    const { refused } = await preview(shopId, { returnMethods: [ReturnMethod.MAIL] });
    expect(refused).toMatchObject({
      count: 1,
      examples: [{ orderName: '#1001', reason: 'Its return method is not offered' }],
    });
  });

  test('says what would have been reviewed or processed, and reviews come first', async () => {
    shopId = await bench.shop();
    plain = await submit();
    const dear = await submit({ lines: [line({ price: { shop: '20.01' }, reason: 'worn' })] });
    const missing = await submit();
    await bench.client.applyAssessments({
      shopId,
      actor,
      assessments: [
        {
          assessmentId: 1n,
          lineItemId: firstLine(missing),
          disposition: { outcome: DispositionOutcome.MISSING },
        },
      ],
    });
    const call = { shopId, actor, carrier: 'DHL', status: LabelStatus.IN_TRANSIT };
    for (const one of [plain, dear]) {
      await bench.client.recordLabel({ ...call, returnId: one.id, idempotencyKey: `${one.id}` });
    }
    const process = { moment: Moment.IN_TRANSIT };
    expect(await decided(shopId, { process })).toEqual({
      ...NOTHING,
      processed: [dear.id, plain.id],
    });
    expect(await decided(shopId, { process, review: { valueAbove: '20.00' } })).toEqual({
      ...NOTHING,
      reviewed: [dear.id],
      processed: [plain.id],
    });
    expect((await decided(shopId, { process: { ...process, upTo: '20.00' } })).processed).toEqual([
      plain.id,
    ]);
    expect((await decided(shopId, { review: { reasons: ['worn'] } })).reviewed).toEqual([dear.id]);
    expect((await decided(shopId, { review: { missing: true } })).reviewed).toEqual([missing.id]);
  });

  test('counts the returns of a shopper until each return', async () => {
    shopId = await bench.shop();
    const customer = { customer: { email: 'ann@example.com' } };
    const [, , third] = [await submit(customer), await submit(), await submit(customer)];
    const review = { returnsAbove: 1, returnsDays: 30 };
    expect((await decided(shopId, { review })).reviewed).toEqual([third?.id]);
    await bench.db.pool.query(
      'update returns set fraud_reported_at = created_at where shop_id = $1 and id <> $2',
      [shopId, third?.id],
    );
    const { reviewed } = await decided(shopId, { review: { fraudReport: true } });
    expect(reviewed).toEqual([third?.id]);
  });

  test('judges by the window, the tags and the country of an order that was looked up', async () => {
    shopId = await bench.shop();
    const found = await submit({
      ...{ order: { name: '#T10' }, currency: '', outcome: Outcome.UNSPECIFIED },
      ...{ findOrder: true, policy: PolicyUse.APPLY },
      lines: [{ sku: 'SAMPLE-SCARF', quantity: 1 }],
    });
    const drafts: Draft[] = [
      { window: { days: 5 } },
      { finalSale: { tags: ['final-sale'] } },
      { countries: ['DE'] },
    ];
    for (const draft of drafts) {
      expect(await decided(shopId, draft)).toEqual({ ...NOTHING, refused: [found.id] });
    }
    expect(await decided(shopId, { window: { days: 30 }, countries: ['GB'] })).toEqual(NOTHING);
  });

  test('refuses a reason that is not offered', async () => {
    shopId = await bench.shop();
    const large = await submit({ lines: [line({ reason: 'too big' })] });
    const reasons = [{ code: 'too_big', label: { en: 'Too big' } }];
    expect(await decided(shopId, { reasons })).toEqual({ ...NOTHING, refused: [large.id] });
  });

  test('says which returns it cannot judge, and judges what it can', async () => {
    shopId = await bench.shop();
    const dear = await submit({ lines: [line({ price: { shop: '50.00' }, reason: 'too big' })] });
    const drafts: Draft[] = [
      { window: { days: 30 } },
      { finalSale: { tags: ['sale'] } },
      { countries: ['DE'] },
    ];
    for (const draft of drafts) {
      expect(await decided(shopId, draft)).toEqual({ ...NOTHING, notJudged: [dear.id] });
    }
    const both = await decided(shopId, {
      window: { days: 30 },
      review: { valueAbove: '20.00' },
    });
    expect(both).toEqual({ ...NOTHING, reviewed: [dear.id], notJudged: [dear.id] });
  });

  test('judges the last 90 days over several pages, with up to 20 examples', async () => {
    shopId = await bench.shop();
    plain = await submit();
    await bench.db.pool.query(
      `insert into returns (shop_id, created_at, order_id, order_name, state, type, outcome, return_method, currency,
         presentment_currency, return_total, shipping, shipping_tax, credit_shipping, return_credit, handling_fee, refund,
         presentment_return_total, presentment_shipping, presentment_shipping_tax, presentment_credit_shipping,
         presentment_return_credit, presentment_handling_fee, presentment_refund)
       select shop_id, now() - n * interval '1 hour', order_id, '#' || n, state, type, outcome, 'in_store', currency,
         presentment_currency, return_total, shipping, shipping_tax, credit_shipping, return_credit, handling_fee, refund,
         presentment_return_total, presentment_shipping, presentment_shipping_tax, presentment_credit_shipping,
         presentment_return_credit, presentment_handling_fee, presentment_refund
         from returns, generate_series(1, 2400) n where shop_id = $1 and id = $2`,
      [shopId, plain.id],
    );
    const { judged, more, refused } = await preview(shopId, { returnMethods: [ReturnMethod.MAIL] });
    // One each hour of 90 days, and the one of now.
    expect(judged).toBeGreaterThanOrEqual(90 * 24);
    expect(judged).toBeLessThanOrEqual(90 * 24 + 1);
    expect([more, refused?.count]).toEqual([false, judged - 1]);
    expect(refused?.examples.map(({ orderName }) => orderName)).toEqual(
      Array.from({ length: 20 }, (_, n) => `#${n + 1}`),
    );
  });

  test('of an invalid draft is rejected', async () => {
    const call = preview(shopId, { window: { days: -1 } });
    expect(await refusal(call)).toEqual(invalid('policy.window.days'));
  });
});
