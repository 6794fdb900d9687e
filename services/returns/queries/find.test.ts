import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  invalid,
  line,
  newId,
  notFound,
  type ReturnsBench,
  startReturnsBench,
  there,
} from '../../../test/support/returns-bench.ts';
import { actor, refusal } from '../../../test/support/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const day = (n: number) => timestampFromDate(new Date(Date.UTC(2026, 0, n)));

describe('find return', () => {
  const find = async (
    shopId: bigint,
    selector: Parameters<typeof bench.client.findReturn>[0]['selector'],
  ) =>
    (await bench.client.findReturn({ shopId, actor, selector: selector ?? { case: undefined } }))
      .return;

  test('finds by id, either order id, and order name', async () => {
    const one = await bench.submit(await bench.shop());
    const order = there(one.order);
    expect(await find(one.shopId, { case: 'returnId', value: one.id })).toEqual(one);
    expect(await find(one.shopId, { case: 'orderId', value: order.providerOrderId })).toEqual(one);
    expect(await find(one.shopId, { case: 'orderId', value: order.id })).toEqual(one);
    expect(await find(one.shopId, { case: 'orderName', value: order.name })).toEqual(one);
  });

  test('prefers the provider’s order id over ours', async () => {
    const shopId = await bench.shop();
    const first = await bench.submit(shopId);
    const ours = there(first.order).id;
    const second = await bench.submit(shopId, { order: { providerOrderId: ours, name: '#2' } });
    expect(await find(shopId, { case: 'orderId', value: ours })).toEqual(second);
  });

  test('answers the newest of several, and of two of one instant the later', async () => {
    const shopId = await bench.shop();
    const order = { providerOrderId: newId(), name: '#same' };
    await bench.submit(shopId, { order, submittedAt: day(3) });
    const newest = await bench.submit(shopId, { order, submittedAt: day(3) });
    await bench.submit(shopId, { order, submittedAt: day(2) });
    const value = order.providerOrderId;
    expect(await find(shopId, { case: 'orderId', value })).toEqual(newest);
    expect(await find(shopId, { case: 'orderName', value: '#same' })).toEqual(newest);
  });

  test('finds nothing in part, nothing unknown, and wants to know what to find', async () => {
    const { shopId } = await bench.submit(await bench.shop());
    for (const value of ['#100', '#1001 ', 'a\0b']) {
      expect(await refusal(find(shopId, { case: 'orderName', value }))).toEqual(notFound('RETURN'));
    }
    expect(await refusal(find(shopId, { case: 'returnId', value: 0n }))).toEqual(
      notFound('RETURN'),
    );
    expect(await refusal(find(shopId, { case: undefined }))).toEqual(invalid('selector'));
  });
});

describe('get returns', () => {
  test('answers in the order asked and leaves out what is not there', async () => {
    const shopId = await bench.shop();
    const [first, second] = [await bench.submit(shopId), await bench.submit(shopId)];
    const returnIds = [second.id, 999_999_998n, first.id];
    const { returns } = await bench.client.getReturns({ shopId, actor, returnIds });
    expect(returns).toEqual([second, first]);
    expect(await refusal(bench.client.getReturns({ shopId, actor }))).toEqual(
      invalid('return_ids'),
    );
  });
});

describe('get snapshot', () => {
  const snapshot = (of: Return, revision: bigint) =>
    bench.client.getSnapshot({ shopId: of.shopId, actor, returnId: of.id, revision });

  test('answers a return as it was when its event was too large for it', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      lines: Array.from({ length: 15 }, () => line()),
    });
    const { shopId } = submitted;
    const note = 'n'.repeat(65_535);
    const assess = (assessmentId: bigint) =>
      bench.client.applyAssessments({
        shopId,
        actor,
        assessments: submitted.lineItems.map(({ lineItemId }) => ({
          lineItemId,
          assessmentId,
          disposition: { outcome: DispositionOutcome.DONATE, note },
        })),
      });
    const { returns } = await assess(1n);
    await assess(2n);
    await bench.client.flagReturn({ shopId, actor, returnId: submitted.id, reasons: ['x'] });

    const told = (await bench.events(shopId)).find((event) => event.revision === 2n);
    expect(told).toMatchObject({ trigger: 'return.updated', snapshotOmitted: true });
    expect(told?.snapshot).toBeUndefined();
    expect((await snapshot(submitted, 2n)).return).toEqual(returns[0]);
    expect((await snapshot(submitted, 3n)).return?.flagReasons).toEqual(['x']);
  });

  test('refuses a revision that is not kept', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect((await snapshot(submitted, 1n)).return).toEqual(submitted);
    expect(await refusal(snapshot(submitted, 2n))).toEqual(notFound('RETURN'));
  });
});

describe('check line items', () => {
  test('names the shop’s lines and their returns, no others', async () => {
    const one = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const foreign = await bench.submit(await bench.shop());
    const ids = one.lineItems.map((item) => item.lineItemId);
    const lineItemIds = [...ids, 1n << 40n, there(foreign.lineItems[0]).lineItemId];
    const { owners } = await bench.client.checkLineItems({
      shopId: one.shopId,
      actor,
      lineItemIds,
    });
    expect(owners.map(({ lineItemId, returnId }) => ({ lineItemId, returnId }))).toEqual(
      ids.map((lineItemId) => ({ lineItemId, returnId: one.id })),
    );
  });
});
