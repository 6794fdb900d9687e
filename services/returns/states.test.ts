import { timestampDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../test/kit/services/returns-bench.ts';
import { actor, newShop, refusal } from '../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const ENDS = ['closed', 'cancelled', 'expired'] as const;
const about = (of: Return) => ({ shopId: of.shopId, actor, returnId: of.id });
const flag = (of: Return, reasons = ['looks odd']) =>
  bench.client.flagReturn({ ...about(of), reasons, comment: 'please look' });
const unflag = (of: Return) => bench.client.unflagReturn(about(of));
const cancel = (of: Return) => bench.client.cancelReturn({ ...about(of), reason: 'kept' });

describe('flag and unflag', () => {
  test('starts and ends the review of a return, and publishes both', async () => {
    const submitted = await bench.submit(await bench.shop());
    const flagged = present((await flag(submitted)).return);
    expect(flagged).toMatchObject({
      state: ReturnState.REVIEW,
      flagReasons: ['looks odd'],
      revision: 2n,
    });
    const unflagged = present((await unflag(submitted)).return);
    expect(unflagged).toMatchObject({ state: ReturnState.OPEN, flagReasons: [], revision: 3n });
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
    expect((await bench.timeline(submitted)).map((entry) => entry.kind)).toEqual([
      'return.submitted',
      'return.flagged',
      'return.unflagged',
    ]);
  });

  test('changes the time of the last update, but not of the last edit', async () => {
    const submitted = await bench.submit(await bench.shop());
    await bench.db.pool.query(
      `update returns set updated_at = updated_at - interval '1 day' where shop_id = $1`,
      [submitted.shopId],
    );
    const flagged = present((await flag(submitted)).return);
    const age = Date.now() - timestampDate(present(flagged.updatedAt)).getTime();
    expect(Math.abs(age)).toBeLessThan(60_000);
    expect([flagged.createdAt, flagged.editedAt]).toEqual([submitted.createdAt, undefined]);
  });

  test('rejects a flag without a reason', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect(await refusal(flag(submitted, []))).toEqual(invalid('reasons'));
  });

  test('rejects to flag twice, to flag a queued return, and to unflag an open one', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect(await refusal(unflag(submitted))).toEqual(stateForbids);
    await flag(submitted);
    expect(await refusal(flag(submitted))).toEqual(stateForbids);
    await unflag(submitted);
    await bench.queue(submitted);
    expect(await refusal(flag(submitted))).toEqual(stateForbids);
  });

  test.each(ENDS)('rejects a %s return', async (state) => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, state);
    expect(await refusal(flag(submitted))).toEqual(stateForbids);
    expect(await refusal(unflag(submitted))).toEqual(stateForbids);
  });
});

describe('a call with an idempotency key', () => {
  const keyed = { idempotencyKey: 'k-1' };
  const flagOnce = (of: Return, more: object = {}) =>
    bench.client.flagReturn({ ...about(of), reasons: ['odd'], ...keyed, ...more });

  test('changes a return once: a repeated call returns the return as it is now', async () => {
    const submitted = await bench.submit(await bench.shop());
    await flagOnce(submitted);
    const unflagged = present((await unflag(submitted)).return);
    expect((await flagOnce(submitted)).return).toEqual(unflagged);
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
    const once = () => bench.client.unflagReturn({ ...about(submitted), ...keyed });
    await flag(submitted);
    await once();
    await flag(submitted);
    expect((await once()).return?.state).toBe(ReturnState.REVIEW);
  });

  test('cancels once, and a repeated call succeeds', async () => {
    const submitted = await bench.submit(await bench.shop());
    const once = () => bench.client.cancelReturn({ ...about(submitted), reason: 'kept', ...keyed });
    const cancelled = (await once()).return;
    expect((await once()).return).toEqual(cancelled);
    expect(await refusal(cancel(submitted))).toEqual(stateForbids);
  });

  test('is rejected with other content, and can be repeated after a failed call', async () => {
    const submitted = await bench.submit(await bench.shop());
    await flag(submitted);
    expect(await refusal(flagOnce(submitted))).toEqual(stateForbids);
    await unflag(submitted);
    await flagOnce(submitted);
    expect(await refusal(flagOnce(submitted, { comment: 'other' }))).toMatchObject({
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    });
  });

  test('changes a return once when eight calls race', async () => {
    const submitted = await bench.submit(await bench.shop());
    const calls = await Promise.all(Array.from({ length: 8 }, () => flagOnce(submitted)));
    for (const { return: of } of calls) expect(of?.revision).toBe(2n);
    expect(await bench.triggers(submitted)).toEqual(['return.updated']);
  });
});

describe('cancel', () => {
  test('cancels an open return and one in review', async () => {
    const shopId = await bench.shop();
    const [open, flagged] = [await bench.submit(shopId), await bench.submit(shopId)];
    await flag(flagged);
    for (const one of [open, flagged]) {
      const cancelled = present((await cancel(one)).return);
      expect(cancelled).toMatchObject({ state: ReturnState.CANCELLED, flagReasons: [] });
    }
    expect(await bench.triggers(open)).toEqual(['return.updated']);
    expect((await bench.timeline(open)).at(-1)).toMatchObject({
      kind: 'return.cancelled',
      text: 'kept',
      author: actor.name,
    });
  });

  test('cancels the open label request in the same transaction, with the same snapshot', async () => {
    const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
    const submitted = await bench.submit(shopId);
    const cancelled = (await cancel(submitted)).return;
    const published = (await bench.events(shopId)).slice(2);
    expect(published.map((event) => event.trigger)).toEqual([
      'return.updated',
      'label.request.cancelled',
    ]);
    for (const event of published) expect(event.snapshot).toEqual(cancelled);
  });

  test.each(ENDS)('rejects a %s return', async (state) => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, state);
    expect(await refusal(cancel(submitted))).toEqual(stateForbids);
  });

  test('rejects a queued return, and one that does not exist', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect(await refusal(cancel({ ...submitted, id: 999_999_998n }))).toEqual(notFound('RETURN'));
    await bench.queue(submitted);
    expect(await refusal(cancel(submitted))).toEqual(stateForbids);
  });
});

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

  test('are not changed by somebody who read another value', async () => {
    const shopId = await bench.shop({ expiryDays: 10 });
    const settings = { expiryDays: 20 };
    const change = (expected: Settings) =>
      bench.client.updateSettings({ shopId, actor, settings, expected });
    expect(await refusal(change({ expiryDays: 9 }))).toEqual({
      code: Code.Aborted,
      reason: 'REVISION_CONFLICT',
      field: 'expected.expiry_days',
    });
    expect((await bench.client.getSettings({ shopId, actor })).settings?.expiryDays).toBe(10);
    await update(shopId, { restockMode: RestockMode.WEBHOOK });
    expect(await change({ expiryDays: 10 })).toMatchObject({
      settings: { expiryDays: 20, restockMode: RestockMode.WEBHOOK },
      previous: { expiryDays: 10 },
    });
  });

  test('of two people at once are those of the first', async () => {
    const shopId = await bench.shop({ expiryDays: 10 });
    const changes = [20, 30].map((expiryDays) =>
      bench.client.updateSettings({
        ...{ shopId, actor, settings: { expiryDays } },
        expected: { expiryDays: 10 },
      }),
    );
    const ends = await Promise.allSettled(changes);
    expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(1);
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

/** Queues a job that no worker begins during a test: later, and not so late that the clock seems to have been set back. */
async function queueLater(shopId: bigint, returnId: bigint): Promise<void> {
  await bench.db.pool.query(
    `insert into processing_jobs (shop_id, return_id, details, source, actor, traceparent, due_at)
     values ($1, $2, '{}', '', '', '', now() + interval '9 minutes')`,
    [shopId, returnId],
  );
}
