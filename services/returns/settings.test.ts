import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  invalid,
  type ReturnsBench,
  startReturnsBench,
} from '../../test/kit/services/returns-bench.ts';
import { actor, newShop, refusal } from '../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const notConfigured = {
  code: Code.FailedPrecondition,
  reason: 'SHOP_NOT_CONFIGURED',
  field: undefined,
};
type Settings = NonNullable<Parameters<ReturnsBench['client']['updateSettings']>[0]['settings']>;
const update = (shopId: bigint, settings: Settings) =>
  bench.client.updateSettings({ shopId, actor, settings });

describe('returns settings', () => {
  test('start with defaults once the currency is known', async () => {
    const shopId = newShop();
    expect(await refusal(bench.client.getSettings({ shopId, actor }))).toEqual(notConfigured);
    expect(await refusal(update(shopId, { expiryDays: 3 }))).toEqual(notConfigured);
    const { settings } = await update(shopId, { currency: 'JPY' });
    expect(settings).toMatchObject({
      currency: 'JPY',
      restockMode: RestockMode.OFF,
      giftCardMode: GiftCardMode.PROVIDER,
      labelProvider: LabelProvider.OWN,
      expiryDays: 28,
      processingRetryMinutes: 15,
    });
    expect((await bench.client.getSettings({ shopId, actor })).settings).toEqual(settings);
  });

  test('keep absent fields', async () => {
    const shopId = await bench.shop({ expiryDays: 10, parcel: { lengthCm: 99 } });
    const { settings } = await update(shopId, { restockMode: RestockMode.WEBHOOK });
    expect(settings).toMatchObject({
      currency: 'GBP',
      restockMode: RestockMode.WEBHOOK,
      expiryDays: 10,
      parcel: { lengthCm: 99, widthCm: 20, heightCm: 10 },
    });
  });

  test('never change the currency, and accept the same one again', async () => {
    const shopId = await bench.shop();
    await update(shopId, { currency: 'GBP' });
    expect(await refusal(update(shopId, { currency: 'EUR' }))).toEqual(
      invalid('settings.currency'),
    );
  });

  test.each<[Settings, string]>([
    [{ currency: 'GBX' }, 'settings.currency'],
    [{ expiryDays: 366 }, 'settings.expiry_days'],
    [{ expiryDays: -1 }, 'settings.expiry_days'],
    [{ processingRetryMinutes: 1_441 }, 'settings.processing_retry_minutes'],
    [{ parcel: { widthCm: -1 } }, 'settings.parcel.width_cm'],
  ])('reject %j', async (settings, field) => {
    expect(await refusal(update(await bench.shop(), settings))).toEqual(invalid(field));
  });

  test('are only checked when a call says so', async () => {
    const shopId = newShop();
    const check = (settings: Settings) =>
      bench.client.updateSettings({ shopId, actor, settings, validateOnly: true });
    expect(await refusal(check({ currency: 'GBP' }))).toEqual(notConfigured);
    await update(shopId, { currency: 'GBP' });
    expect(await refusal(check({ currency: 'EUR' }))).toEqual(invalid('settings.currency'));
    expect(await refusal(check({ expiryDays: 366 }))).toEqual(invalid('settings.expiry_days'));
    await check({ sandbox: true, expiryDays: 3 });
    expect((await bench.client.getSettings({ shopId, actor })).settings).toMatchObject({
      sandbox: false,
      expiryDays: 28,
    });
  });

  test('keep `sandbox` while a return is being processed', async () => {
    const shopId = await bench.shop({ sandbox: true });
    const { id: returnId } = await bench.submit(shopId);
    await queueLater(shopId, returnId);
    const stateForbids = { code: Code.FailedPrecondition, reason: 'STATE_FORBIDS' };
    for (const validateOnly of [true, false]) {
      const settings = { sandbox: false };
      const call = bench.client.updateSettings({ shopId, actor, settings, validateOnly });
      expect(await refusal(call)).toMatchObject(stateForbids);
    }
    expect((await update(shopId, { sandbox: true, expiryDays: 3 })).settings).toMatchObject({
      sandbox: true,
    });
    await bench.db.pool.query('delete from processing_jobs where shop_id = $1', [shopId]);
    expect((await update(shopId, { sandbox: false })).settings).toMatchObject({ sandbox: false });
  });
});

/** Queues a job that no worker begins during a test. */
async function queueLater(shopId: bigint, returnId: bigint): Promise<void> {
  await bench.db.pool.query(
    `insert into processing_jobs (shop_id, return_id, details, source, actor, traceparent, due_at)
     values ($1, $2, '{}', '', '', '', now() + interval '1 hour')`,
    [shopId, returnId],
  );
}
