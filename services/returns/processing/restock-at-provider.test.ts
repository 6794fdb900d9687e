import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { EffectKind } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ReturnMethod, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  changeSettings,
  creating,
  effectKey,
  eventsOf,
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
import { listEffects } from '../commerce/effects.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../commerce/embedded.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type EffectRequest,
} from '../commerce/provider.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
let requests: EffectRequest[];

beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());
beforeEach(() => {
  requests = [];
});

const restocking = () => newShop(db.pool, { restockMode: RestockMode.PROVIDER });

/** Runs every due job. `create` makes restocks; by default the ledger does. */
async function runAll(create: CommerceProvider['create'] = commerce.create): Promise<void> {
  const provider: CommerceProvider = creating(commerce, 'restock', create);
  const recorded: CommerceProvider = {
    ...provider,
    create(request, signal) {
      requests.push(request);
      return provider.create(request, signal);
    },
  };
  await runDue(runDeps(db.pool, recorded));
}

const kinds = () => requests.map(({ kind }) => kind);

describe('a shop whose commerce provider restocks', () => {
  test('gets one restock after the money, with the location of the line item or of the destination', async () => {
    const own = { ...newLine(), providerRestockLocationId: '4711' };
    const submitted = await newReturn(db.pool, await restocking(), {
      destinationId: 3n,
      lines: [own, newLine()],
    });
    await requestProcessing(db.pool, submitted, {
      details: { picker: { value: { case: 'text', value: 'Ann' } } },
    });
    await runAll();
    expect(kinds()).toEqual(['refund', 'restock']);
    const [first, second] = submitted.lineItems;
    expect(requests[1]).toMatchObject({
      key: await effectKey(db.pool, submitted, 'restock'),
      amount: '0',
      currency: 'GBP',
      items: [],
      lines: [],
      details: {},
      stock: [
        {
          lineItemId: first?.lineItemId,
          providerLineItemId: first?.providerLineItemId,
          variantId: 5n,
          quantity: 2,
          locationId: 4711n,
        },
        {
          lineItemId: second?.lineItemId,
          providerLineItemId: second?.providerLineItemId,
          variantId: 5n,
          quantity: 2,
          locationId: LOCATION,
        },
      ],
    });
    expect(requests[0]?.stock).toEqual([]);
    const { refunds, restocks } = await commerce.ordersOf(submitted.id);
    expect([refunds.length, restocks.length]).toEqual([1, 1]);
    expect(restocks[0]).toMatchObject({ amount: '0', calls: 1 });
  });

  test('shows it in the effects and in the timeline, and sends no event for it', async () => {
    const submitted = await newReturn(db.pool, await restocking());
    await requestProcessing(db.pool, submitted);
    await runAll();
    expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
    const [restock] = (await commerce.ordersOf(submitted.id)).restocks;
    const of = { shopId: submitted.shopId, returnId: submitted.id };
    expect((await listEffects(db.pool, of))[1]).toMatchObject({
      kind: EffectKind.RESTOCK,
      amount: { value: '0', currency: 'GBP' },
      name: '',
      providerId: String(restock?.id),
    });
    const entry = (await timelineOf(db.pool, submitted)).find(
      ({ kind }) => kind === 'return.processing.restock',
    );
    expect(entry?.facts).toEqual({ provider_id: String(restock?.id) });
    const closed = await reload(db.pool, submitted);
    expect([closed.exchangeOrders, closed.refunds.length]).toEqual([[], 1]);
  });

  test('is asked nothing when no goods come back', async () => {
    const submitted = await newReturn(db.pool, await restocking(), {
      returnMethod: ReturnMethod.KEEP_ITEM,
    });
    await requestProcessing(db.pool, submitted);
    await runAll();
    expect(kinds()).toEqual(['refund']);
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.CLOSED);
  });

  test('that rejects the restock keeps the refund, and the next run only restocks', async () => {
    const submitted = await newReturn(db.pool, await restocking());
    await requestProcessing(db.pool, submitted);
    await runAll(async () => {
      throw new CommerceFailure('final', 'the location is closed');
    });
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.OPEN);
    expect(await triggersOf(db.pool, submitted)).toContain('return.processing.failed');
    const of = { shopId: submitted.shopId, returnId: submitted.id };
    expect((await listEffects(db.pool, of))[1]).toMatchObject({
      problem: 'the location is closed',
    });
    requests = [];
    await requestProcessing(db.pool, submitted);
    await runAll();
    expect(kinds()).toEqual(['restock']);
    const { refunds, restocks } = await commerce.ordersOf(submitted.id);
    expect([refunds.length, restocks.length]).toEqual([1, 1]);
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.CLOSED);
  });

  test('whose answer was lost is asked what it has restocked, and restocks once', async () => {
    const submitted = await newReturn(db.pool, await restocking());
    await requestProcessing(db.pool, submitted);
    await runAll(async (request, signal) => {
      await commerce.create(request, signal);
      throw new CommerceFailure('passing', 'the connection was lost');
    });
    expect(kinds()).toEqual(['refund', 'restock']);
    expect((await commerce.ordersOf(submitted.id)).restocks).toMatchObject([{ calls: 1 }]);
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.CLOSED);
  });

  test.each([RestockMode.WEBHOOK, RestockMode.OFF])(
    'stays the one that restocks a return, after another setting (%s)',
    async (restockMode) => {
      const shopId = await newShop(db.pool, {
        restockMode: RestockMode.PROVIDER,
        processingRetryMinutes: 1,
      });
      const submitted = await newReturn(db.pool, shopId);
      await requestProcessing(db.pool, submitted);
      await runAll(async (request, signal) => {
        await commerce.create(request, signal);
        // The answer is lost, and the job ends as failed: another setting is possible now.
        throw new CommerceFailure('passing', 'lost', { retryAfterMs: 120_000 });
      });
      await changeSettings(db.pool, shopId, { restockMode });
      await requestProcessing(db.pool, submitted);
      await runAll();
      const triggers = (await eventsOf(db.pool, submitted)).map(({ trigger }) => trigger);
      expect(triggers).toContain('return.closed');
      expect(triggers).not.toContain('restock.requested');
      expect((await commerce.ordersOf(submitted.id)).restocks).toMatchObject([{ calls: 1 }]);
    },
  );
});
