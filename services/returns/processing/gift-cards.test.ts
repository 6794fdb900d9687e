import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Outcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { GiftCardMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  changeSettings,
  claimOne,
  creating,
  endLeases,
  newReturn,
  newShop,
  onlyProvider,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
  watch,
} from '../../../test/kit/services/processing.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../commerce/embedded.ts';
import { CommerceFailure } from '../commerce/provider.ts';
import { performStep } from './perform.ts';
import { prepare } from './prepare.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());

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
      await performStep({ pool: db.pool, watch, job, prepared, step });
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
