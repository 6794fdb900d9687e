import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PolicyUse, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { ProcessReturnResponse_Refused_Code as Refusal } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { returnRequest } from '../../test/kit/builders.ts';
import { type ReturnsBench, startReturnsBench } from '../../test/kit/services/returns-bench.ts';
import { actor } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { inTransaction } from '../platform/postgres/postgres.ts';
import { queueJob } from '../returns/processing/jobs.ts';
import { createEmbeddedCommerce } from './embedded.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench({ NODE_ENV: 'production' });
});
afterAll(() => bench.stop());

const mark = (shopId: bigint, sandbox: boolean) =>
  bench.client.updateSettings({ shopId, actor, settings: { sandbox } });
const process = (shopId: bigint, returnId: bigint) =>
  bench.client.processReturn({ shopId, actor, returnId });
const read = async (shopId: bigint, returnId: bigint) =>
  (await bench.client.getReturns({ shopId, actor, returnIds: [returnId] })).returns[0];
const refusedSoFar = async () => {
  const text = await (await fetch(bench.metricsUrl)).text();
  return Number(
    /^processing_refused_total\{.*no_commerce_provider.*\} (\d+)/m.exec(text)?.[1] ?? 0,
  );
};

describe('production with the embedded commerce provider', () => {
  test('does not process a live shop: nothing is queued, closed or paid, and it is counted', async () => {
    const shopId = await bench.shop();
    const { id } = await bench.submit(shopId);
    const before = await refusedSoFar();
    const { result } = await process(shopId, id);
    expect(result).toMatchObject({
      case: 'refused',
      value: {
        code: Refusal.NO_COMMERCE_PROVIDER,
        message: expect.stringContaining('no commerce provider'),
      },
    });
    expect(await refusedSoFar()).toBe(before + 1);
    expect(await read(shopId, id)).toMatchObject({ state: ReturnState.OPEN, processing: false });
    const { rows } = await bench.db.pool.query('select from processing_jobs where shop_id = $1', [
      shopId,
    ]);
    expect(rows).toEqual([]);
  });

  test('processes a shop marked as sandbox', async () => {
    const shopId = await bench.shop({ sandbox: true });
    const { id } = await bench.submit(shopId);
    expect((await process(shopId, id)).result.case).toBe('queued');
    await until(async () => (await read(shopId, id))?.state === ReturnState.CLOSED);
  });

  test('takes no stated prices while the connection to the platform cannot be used', async () => {
    const shopId = await bench.shop();
    const stated = { policy: PolicyUse.APPLY, statesOrder: true };
    const submit = () => bench.client.submitReturn(returnRequest(shopId, stated));
    const { return: made } = await submit();
    expect(made?.state).toBe(ReturnState.OPEN);
    // As after the merchant removed the app from the store.
    await bench.db.pool.query(
      `insert into commerce_connections (shop_id, adapter, shop_domain, scopes)
       values ($1, 'shopify', 'a.myshopify.com', 'x')`,
      [shopId],
    );
    await expect(submit()).rejects.toMatchObject({ code: Code.Unavailable });
    const order = { case: 'orderName' as const, value: '#1001' };
    await expect(bench.client.getEligibility({ shopId, actor, order })).rejects.toMatchObject({
      code: Code.Unavailable,
    });
  });

  test('a job that waits when the mark is removed fails, and no money moves', async () => {
    const shopId = await bench.shop({ sandbox: true });
    const { id } = await bench.submit(shopId);
    await inTransaction(bench.db.pool, async (tx) => {
      await tx.query('update settings set sandbox = false where shop_id = $1', [shopId]);
      const about = { shopId, returnId: id, actor };
      const job = { ...about, details: {}, source: '', isCancellation: false };
      await queueJob(tx, job, { returnId: id, kind: 'return.processing.queued', text: 'queued' });
    });
    const triggers = async () => (await bench.events(shopId)).map(({ trigger }) => trigger);
    await until(async () => (await triggers()).includes('return.processing.failed'));
    expect(await read(shopId, id)).toMatchObject({ state: ReturnState.OPEN, processing: false });
    expect((await createEmbeddedCommerce(bench.db.pool).ordersOf(id)).refunds).toEqual([]);
  });

  test('a shop stays a sandbox shop until the setting changes', async () => {
    const shopId = await bench.shop();
    const settings = async () => (await bench.client.getSettings({ shopId, actor })).settings;
    expect(await settings()).toMatchObject({ sandbox: false });
    await mark(shopId, true);
    await bench.client.updateSettings({ shopId, actor, settings: { expiryDays: 9 } });
    expect(await settings()).toMatchObject({ sandbox: true, expiryDays: 9 });
    await mark(shopId, false);
    expect(await settings()).toMatchObject({ sandbox: false });
  });
});
