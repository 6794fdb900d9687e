import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  ConnectRequestSchema,
  EffectKind,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import {
  Outcome,
  type Return,
  ReturnMethod,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { GiftCardMode, RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  changeSettings,
  claimOne,
  creating,
  destinations,
  effectKey,
  endLeases,
  eventsOf,
  LOCATION,
  newLine,
  newReturn,
  newShop,
  onlyProvider,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  triggersOf,
  watch,
} from '../../../test/kit/services/processing.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { until } from '../../../test/kit/until.ts';
import { connectShop } from '../../commerce/connections.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../../commerce/embedded.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type EffectRequest,
} from '../../commerce/provider.ts';
import type { Providers } from '../../commerce/providers.ts';
import { newKeyringText, parseKeyring } from '../../platform/security/keyring.ts';
import { loadSettings } from '../settings.ts';
import { recordEffect } from './effect-store.ts';
import { listEffects } from './effects.ts';
import { makeEffect } from './perform.ts';
import { prepare } from './prepare.ts';
import type { RunDeps } from './run.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());

describe('a shop whose commerce provider restocks', () => {
  let requests: EffectRequest[];
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

describe('a shop that changes to external gift cards', () => {
  let of: Return;
  beforeEach(async () => {
    of = await newReturn(db.pool, await newShop(db.pool), {
      outcome: Outcome.CREDIT,
      amounts: { returnCredit: { shop: '20.00' } },
    });
    await requestProcessing(db.pool, of);
  });

  const goExternal = () =>
    changeSettings(db.pool, of.shopId, { giftCardMode: GiftCardMode.EXTERNAL });

  /** The first card is issued, its response is lost, and the shop changes to external cards. */
  function losingFirstAnswer(): EmbeddedCommerce {
    let calls = 0;
    return creating(commerce, 'gift_card', async (request, signal) => {
      const card = await commerce.create(request, signal);
      calls += 1;
      if (calls > 1) return card;
      await goExternal();
      throw new CommerceFailure('passing', 'timed out');
    });
  }

  async function expectOneCard(): Promise<void> {
    const { giftCards } = await commerce.ordersOf(of.id);
    expect(giftCards).toMatchObject([{ amount: '20.00', calls: 1 }]);
    expect(await reload(db.pool, of)).toMatchObject({
      giftCardOrder: { id: giftCards[0]?.id },
      giftCardPresentment: { value: '20.00', currency: 'GBP' },
    });
  }

  test('finds a card of unknown outcome in the next attempt', async () => {
    await runDue(runDeps(db.pool, losingFirstAnswer()));
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
    await expectOneCard();
  });

  test('finds a card of unknown outcome in a new run', async () => {
    await runDue({ ...runDeps(db.pool, losingFirstAnswer()), retryBackoff: () => 3_600_000 });
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, commerce));
    expect(await triggersOf(db.pool, of)).toEqual(['return.processing.failed', 'return.closed']);
    await expectOneCard();
  });

  test('requests no second card after a worker stored the first card and died', async () => {
    const job = await claimOne(db.pool);
    const prepared = await prepare(
      { ...changeDeps(db.pool), providers: onlyProvider(commerce) },
      job,
    );
    for (const step of prepared.steps) {
      const made = await makeEffect({ pool: db.pool, watch, job, prepared, step });
      await recordEffect(db.pool, job, made);
    }
    await endLeases(db.pool);
    await goExternal();
    await runDue(runDeps(db.pool, commerce));
    expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
    await expectOneCard();
  });

  test('requests an external card after the provider rejected one', async () => {
    await commerce.failNext({ returnId: of.id, kind: 'final', times: 1 });
    await runDue(runDeps(db.pool, commerce));
    await goExternal();
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, commerce));
    const triggers = ['return.processing.failed', 'return.closed', 'giftcard.requested'];
    expect(await triggersOf(db.pool, of)).toEqual(triggers);
    expect((await commerce.ordersOf(of.id)).giftCards).toEqual([]);
  });
});

describe('provider change', () => {
  // A shop gets another commerce provider while a run of processing is between its plan and its first request.
  const FORMER = 'https://former.example.com/';
  const NEW = 'https://new.example.com/';
  let of: Return;
  /** The addresses of the providers that were requested a refund, in order. */
  let requested: string[];
  beforeEach(async () => {
    requested = [];
    // With this mode a run asks for the location of the goods after its plan.
    const shopId = await newShop(db.pool, { restockMode: RestockMode.WEBHOOK });
    of = await newReturn(db.pool, shopId, { destinationId: 3n });
    await connect(FORMER);
    await requestProcessing(db.pool, of);
  });

  const keyring = parseKeyring(newKeyringText());
  const policy = { allowedOrigins: [], stackPorts: () => [] };
  const connect = (url: string) =>
    connectShop(
      { pool: db.pool, keyring, policy, loadSettings },
      create(ConnectRequestSchema, { shopId: of.shopId, actor, url }),
    );

  /** The former provider makes the refund, and its answer is lost. Neither provider knows what the other made. */
  function providerAt(url: string): CommerceProvider {
    const ledger = createEmbeddedCommerce(db.pool);
    return {
      ...ledger,
      find: async () => undefined,
      create: async (request, signal) => {
        requested.push(url);
        if (url === FORMER) throw new CommerceFailure('passing', 'the answer is lost');
        return ledger.create(request, signal);
      },
    };
  }

  const connected: Providers = {
    of: async (tx, { shopId }) => {
      const { rows } = await tx.query<{ url: string }>(
        'select url from commerce_connections where shop_id = $1',
        [shopId],
      );
      return rows[0] && providerAt(rows[0].url);
    },
    connected: async () => undefined,
    forLookUps: async () => undefined,
  };

  /** Runs the job, and does something each time after the plan and before the first request. */
  async function run(afterPlan: () => Promise<unknown>): Promise<void> {
    const deps: RunDeps = {
      ...runDeps(db.pool, createEmbeddedCommerce(db.pool)),
      providers: connected,
      destinations: {
        getDestination: async (request, options) => {
          await afterPlan();
          return destinations.getDestination(request, options);
        },
      },
    };
    await until(async () => {
      await endLeases(db.pool);
      await runDue(deps);
      return (await reload(db.pool, of)).state === ReturnState.CLOSED;
    });
  }

  test('the run requests nothing of the former provider, and the next run uses the new one', async () => {
    await run(() => connect(NEW));
    expect(requested).toEqual([NEW]);
  });

  test('a request waits for a change that is being made', async () => {
    const operator = await db.pool.connect();
    let hasBegun = false;
    await run(async () => {
      if (hasBegun) return;
      hasBegun = true;
      await operator.query('begin');
      await operator.query('update commerce_connections set url = $2 where shop_id = $1', [
        of.shopId,
        NEW,
      ]);
      const waiting = `select from pg_stat_activity
                      where datname = current_database() and wait_event_type = 'Lock' and query like '%for share%'`;
      until(async (see) => see((await db.pool.query(waiting)).rowCount) === 1)
        .finally(() => operator.query('commit'))
        .catch(() => {});
    });
    operator.release();
    expect([...new Set(requested)]).toEqual([NEW]);
  });
});
