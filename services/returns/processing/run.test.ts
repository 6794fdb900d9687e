import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { EffectState } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  changeSettings,
  claimOne,
  creating,
  endLeases,
  eventsOf,
  exchangeWith,
  LOCATION,
  newLine,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure, type CommerceProvider, type Effect } from '../../commerce/provider.ts';
import type { Providers } from '../../commerce/providers.ts';
import { withTraceparent } from '../../platform/telemetry/telemetry.ts';
import { listEffects } from './effects.ts';
import { RETRY_BACKOFF } from './jobs.ts';
import { runJob } from './run.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

describe('processing', () => {
  let commerce: EmbeddedCommerce;
  beforeAll(async () => {
    commerce = createEmbeddedCommerce(db.pool);
  });

  const never = new AbortController().signal;
  const endJobs = () =>
    db.pool.query(
      "update processing_jobs set state = 'failed', finished_at = now() where finished_at is null",
    );
  const runAll = (provider: CommerceProvider = commerce) => runDue(runDeps(db.pool, provider));

  test('records the last effect when the return cannot be closed', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    const expiring = creating(commerce, 'refund', async (request, signal) => {
      const effect = await commerce.create(request, signal);
      await db.pool.query(
        "update returns set state = 'expired', processing = false where id = $1",
        [submitted.id],
      );
      return effect;
    });
    await runAll(expiring);
    const { state, refunds } = await reload(db.pool, submitted);
    expect(state).toBe(ReturnState.EXPIRED);
    expect(refunds).toMatchObject([{ money: { value: '20.00', currency: 'GBP' } }]);
    const triggers = await triggersOf(db.pool, submitted);
    expect(triggers).toEqual(['return.updated', 'return.processing.failed']);
  });

  test('counts a failure to record the last effect as one of its step', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    const named = async (): Promise<Effect> => ({
      ...{ id: '1', name: '', gateway: '', provider: 'x'.repeat(200) },
      ...{ amount: '20.00', currency: 'GBP', createdAt: new Date() },
    });
    const failures: number[] = [];
    const deps = {
      ...runDeps(db.pool, { ...creating(commerce, 'refund', named), find: named }),
      retryBackoff: (failure: number) => {
        failures.push(failure);
        return 0;
      },
    };
    for (let run = 0; run < 3; run += 1) await runJob(deps, await claimOne(db.pool), never);
    expect(failures).toEqual([1, 2, 3]);
    const [effect] = await listEffects(db.pool, {
      shopId: submitted.shopId,
      returnId: submitted.id,
    });
    expect(effect).toMatchObject({
      state: EffectState.UNKNOWN,
      problem: expect.stringMatching(/./),
    });
    await endJobs();
  });

  test('asks for the provider only to say that there is none', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    await db.pool.query("update returns set state = 'expired', processing = false where id = $1", [
      submitted.id,
    ]);
    const asked: boolean[] = [];
    const of: Providers['of'] = async (_, { isCheck = false }) => {
      asked.push(isCheck);
      return undefined;
    };
    const deps = runDeps(db.pool, commerce);
    await runDue({ ...deps, providers: { ...deps.providers, of } });
    expect(asked).not.toContain(false);
  });

  test('refunds, closes and archives the return, and publishes it once', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    await runAll();
    const closed = await reload(db.pool, submitted);
    expect(closed).toMatchObject({ state: ReturnState.CLOSED, processing: false, revision: 2n });
    expect(closed.archivedAt).toBeDefined();
    expect(closed.refunds).toMatchObject([{ money: { value: '20.00', currency: 'GBP' } }]);
    const [event, ...others] = await eventsOf(db.pool, submitted);
    expect(others).toEqual([]);
    expect(event).toMatchObject({ trigger: 'return.closed', revision: 2n, actor: { id: 'u1' } });
    expect(event?.snapshot).toEqual(closed);
    expect(await commerce.ordersOf(submitted.id)).toMatchObject({
      orders: [],
      giftCards: [],
      refunds: [{ amount: '20.00', calls: 1 }],
    });
  });

  test('fulfils exchange order, gift card and refund in this order, with the additional details', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('gift card'));
    const details = { picker: { value: { case: 'text' as const, value: 'Ann' } } };
    await requestProcessing(db.pool, submitted, { details });
    await runAll();
    const { orders, giftCards, refunds } = await commerce.ordersOf(submitted.id);
    expect(orders).toMatchObject([{ amount: '12.00', additionalDetails: { picker: 'Ann' } }]);
    expect(giftCards).toMatchObject([{ amount: '8.00', additionalDetails: { picker: 'Ann' } }]);
    expect(refunds).toEqual([]);
    expect(orders[0]?.id).toBeLessThan(giftCards[0]?.id ?? 0n);
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
    expect(await reload(db.pool, submitted)).toMatchObject({
      exchangeOrders: [{ id: orders[0]?.id }],
      giftCardOrder: { id: giftCards[0]?.id },
      giftCardPresentment: { value: '8.00', currency: 'GBP' },
    });
  });

  test('sends amounts in the currency the shopper paid in', async () => {
    const line = { ...newLine(), price: { shop: '20.00', presentment: '3100' } };
    const submitted = await newReturn(db.pool, await newShop(db.pool), {
      presentmentCurrency: 'JPY',
      lines: [line],
    });
    await requestProcessing(db.pool, submitted);
    await runAll();
    const { refunds } = await commerce.ordersOf(submitted.id);
    expect(refunds).toMatchObject([{ amount: '3100', currency: 'JPY' }]);
  });

  test('retries after a transient failure, and resets the failures after success', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await commerce.failNext({ returnId: submitted.id, kind: 'passing', times: 3 });
    await requestProcessing(db.pool, submitted);
    await runAll();
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
    const { refunds } = await commerce.ordersOf(submitted.id);
    expect(refunds).toMatchObject([{ calls: 1 }]);
  });

  test('starts with the shortest pause again for the next effect', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    await commerce.failNext({ returnId: submitted.id, kind: 'passing', times: 2 });
    let refusals = 0;
    const busyOnce = creating(commerce, 'refund', (request, signal) => {
      refusals += 1;
      if (refusals > 1) return commerce.create(request, signal);
      return Promise.reject(new CommerceFailure('passing', 'busy'));
    });
    await requestProcessing(db.pool, submitted);
    const pauses: number[] = [];
    const retryBackoff = (failures: number) => {
      pauses.push(failures);
      return 0;
    };
    await runDue({ ...runDeps(db.pool, busyOnce), retryBackoff });
    expect(pauses).toEqual([1, 2, 1]);
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
  });

  test('counts transient failures as permanent after the minutes of the settings', async () => {
    const submitted = await newReturn(
      db.pool,
      await newShop(db.pool, { processingRetryMinutes: 1 }),
    );
    await commerce.failNext({ returnId: submitted.id, kind: 'passing', times: 1_000 });
    await requestProcessing(db.pool, submitted);
    const retryBackoff = (failures: number) => (failures < 3 ? 0 : 61_000);
    await runDue({ ...runDeps(db.pool, commerce), retryBackoff });
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.processing.failed']);
  });

  test('keeps the effects that were made when it fails; a new request does the rest', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    const refuseRefunds = creating(commerce, 'refund', () =>
      Promise.reject(new CommerceFailure('final', 'card closed')),
    );
    await requestProcessing(db.pool, submitted, { source: 'admin' });
    await runAll(refuseRefunds);
    const failed = await reload(db.pool, submitted);
    expect(failed).toMatchObject({ state: ReturnState.OPEN, processing: false });
    expect(failed.exchangeOrders).toHaveLength(1);
    const events = await eventsOf(db.pool, submitted);
    expect(events.map((event) => event.trigger)).toEqual([
      'return.updated',
      'return.processing.failed',
    ]);
    expect(events[1]?.detail).toMatchObject({ value: { source: 'admin' } });

    const details = { second: { value: { case: 'truth' as const, value: true } } };
    expect(await requestProcessing(db.pool, submitted, { details })).toMatchObject({
      case: 'queued',
    });
    await runAll();
    const closed = await reload(db.pool, submitted);
    expect(closed).toMatchObject({
      state: ReturnState.CLOSED,
      exchangeOrders: [{}],
      refunds: [{}],
    });
    const { orders, refunds } = await commerce.ordersOf(submitted.id);
    expect(orders).toMatchObject([{ calls: 1, additionalDetails: {} }]);
    expect(refunds).toMatchObject([{ amount: '8.00', calls: 1 }]);
  });

  test('closes a return without any effect to request', async () => {
    const shopId = await newShop(db.pool);
    const submitted = await newReturn(db.pool, shopId, {
      amounts: { handlingFee: { shop: '20.00' } },
    });
    await requestProcessing(db.pool, submitted);
    await runAll();
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
    expect(await commerce.ordersOf(submitted.id)).toEqual({
      orders: [],
      giftCards: [],
      refunds: [],
      restocks: [],
      cancellations: [],
    });
  });

  test('requests gift cards of an external provider by event', async () => {
    const shopId = await newShop(db.pool, { giftCardMode: GiftCardMode.EXTERNAL });
    const submitted = await newReturn(db.pool, shopId, exchangeWith('gift card'));
    await requestProcessing(db.pool, submitted);
    await runAll();
    const events = await eventsOf(db.pool, submitted);
    expect(events.map((event) => event.trigger)).toEqual(['return.closed', 'giftcard.requested']);
    expect(events[1]?.detail.value).toMatchObject({
      returnId: submitted.id,
      money: { value: '8.00', currency: 'GBP' },
    });
    expect((await commerce.ordersOf(submitted.id)).giftCards).toEqual([]);
  });

  test('requests restocking by event, at the location of the line item or else of the destination', async () => {
    const shopId = await newShop(db.pool, { restockMode: RestockMode.WEBHOOK });
    const own = { ...newLine(), providerRestockLocationId: '4711' };
    const submitted = await newReturn(db.pool, shopId, {
      destinationId: 3n,
      lines: [own, newLine()],
    });
    await requestProcessing(db.pool, submitted);
    await runAll();
    const events = await eventsOf(db.pool, submitted);
    expect(events.map((event) => event.trigger)).toEqual(['return.closed', 'restock.requested']);
    const [first, second] = submitted.lineItems;
    expect(events[1]?.detail.value).toMatchObject({
      items: [
        { lineItemId: first?.lineItemId, locationId: 4711n, variantId: 5n, quantity: 2 },
        { lineItemId: second?.lineItemId, locationId: LOCATION, variantId: 5n, quantity: 2 },
      ],
    });
  });

  test('cancels the open label request', async () => {
    const shopId = await newShop(db.pool, { labelProvider: LabelProvider.THIRD_PARTY });
    const submitted = await newReturn(db.pool, shopId);
    await requestProcessing(db.pool, submitted);
    await runAll();
    const triggers = await triggersOf(db.pool, submitted);
    expect(triggers).toEqual(['label.request.issued', 'return.closed', 'label.request.cancelled']);
  });

  test('does nothing for a return that was flagged after it was queued', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    await db.pool.query(
      "update returns set state = 'review', processing = false where shop_id = $1 and id = $2",
      [submitted.shopId, submitted.id],
    );
    await runAll();
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.processing.failed']);
    expect((await commerce.ordersOf(submitted.id)).refunds).toEqual([]);
  });

  test('continues the trace of its request, with what other monitoring wrote into it', async () => {
    const telemetry = await testTelemetry();
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    const traceId = 'a'.repeat(32);
    const request = () => requestProcessing(db.pool, submitted);
    await withTraceparent(`00-${traceId}-${'b'.repeat(16)}-01`, request, 'dd=s:1');
    await runAll();
    const { rows } = await db.pool.query(
      `select split_part(traceparent, '-', 2) as trace, tracestate from events
        where shop_id = $1 and trigger = 'return.closed'`,
      [submitted.shopId],
    );
    expect(rows).toEqual([{ trace: traceId, tracestate: 'dd=s:1' }]);
    await telemetry.stop();
  });

  test('a worker that lost its lease writes nothing more', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    const stale = await claimOne(db.pool);
    await endLeases(db.pool);
    const taken = await claimOne(db.pool);
    await runJob(runDeps(db.pool, commerce), stale, never);
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.OPEN);
    await runJob(runDeps(db.pool, commerce), taken, never);
    await runJob(runDeps(db.pool, commerce), stale, never);
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
  });

  test('is queued again when the worker stops', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    await runJob(runDeps(db.pool, commerce), await claimOne(db.pool), AbortSignal.abort());
    expect((await commerce.ordersOf(submitted.id)).refunds).toEqual([]);
    await runAll();
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
  });

  test('writes its effects into the timeline', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, submitted);
    await runAll();
    const kinds = (await timelineOf(db.pool, submitted)).map((entry) => entry.kind);
    expect(kinds.slice(-3)).toEqual([
      'return.processing.queued',
      'return.processing.refund',
      'return.closed',
    ]);
  });

  test('uses the settings of the time when it runs', async () => {
    const shopId = await newShop(db.pool);
    const submitted = await newReturn(db.pool, shopId);
    await requestProcessing(db.pool, submitted);
    await changeSettings(db.pool, shopId, { restockMode: RestockMode.WEBHOOK });
    await runAll();
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed', 'restock.requested']);
  });
});

describe('the pause after a transient failure', () => {
  test.each([0, 1, 2, 3, 5, 6, 20])(
    'after %d others is the scheduled one, up to 20 %% more',
    (n) => {
      const scheduled = Math.min(2 ** n, 60) * 1_000;
      const delays = Array.from({ length: 100 }, () => RETRY_BACKOFF(n + 1));
      for (const delay of delays) {
        expect(delay).toBeGreaterThanOrEqual(scheduled);
        expect(delay).toBeLessThanOrEqual(scheduled * 1.2);
      }
      expect(new Set(delays).size).toBeGreaterThan(1);
    },
  );
});
