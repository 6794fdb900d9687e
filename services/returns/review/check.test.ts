import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  CheckReturnRequestSchema,
  FlagReturnRequestSchema,
  InstantRefundState,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  creating,
  exchangeWith,
  newReturn,
  newShop,
  onlyProvider,
  reload,
  requestProcessing,
  runDeps,
  runDue,
} from '../../../test/kit/services/processing.ts';
import { storeOf } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure } from '../../commerce/provider.ts';
import { endInstantRefund, insertInstantRefund } from '../instant-refunds/instant-refunds-store.ts';
import { cancelReturn } from './cancel.ts';
import { checkReturn } from './check.ts';
import { flagReturn } from './flag.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

type Of = Pick<Return, 'shopId' | 'id'>;

function check({ shopId, id: returnId }: Of, providers = anyProvider()) {
  const request = create(CheckReturnRequestSchema, { shopId, returnId, actor });
  return checkReturn(db.pool, request, providers);
}

const anyProvider = () => onlyProvider(createEmbeddedCommerce(db.pool));

/** What processing really does must be what the check said. */
async function expectProcessing(of: Of, expected: object): Promise<void> {
  expect((await check(of)).process?.result).toMatchObject(expected);
  expect(await requestProcessing(db.pool, of)).toMatchObject(expected);
}

function cancel({ shopId, id: returnId }: Of) {
  return cancelReturn(
    storeOf(db.pool),
    create(CancelReturnRequestSchema, { shopId, returnId, actor }),
  );
}

const submitted = async () => newReturn(db.pool, await newShop(db.pool));

function instantRefund({ shopId, id: returnId }: Of) {
  const money = { amount: '8.00', currency: 'GBP', chargeReference: 'ch_1' };
  return insertInstantRefund(db.pool, { shopId, returnId, ...money });
}

describe('check return', () => {
  test('says that an open return would be queued, and changes nothing', async () => {
    const of = await submitted();
    expect(await check(of)).toMatchObject({
      process: { result: { case: 'queued' } },
      cancelRefusal: '',
      cancelsOrder: false,
      instantRefunds: [],
    });
    expect(await reload(db.pool, of)).toMatchObject({ processing: false, revision: of.revision });
  });

  test('says the same as processing about a flagged, a queued and a closed return', async () => {
    const flagged = await submitted();
    const reasons = ['Look'];
    const flag = { shopId: flagged.shopId, returnId: flagged.id, actor, reasons };
    await flagReturn(storeOf(db.pool), create(FlagReturnRequestSchema, flag));
    await expectProcessing(flagged, { case: 'refused', value: { code: 1 } });

    const queued = await submitted();
    await requestProcessing(db.pool, queued);
    await expectProcessing(queued, { case: 'alreadyQueued' });
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    await expectProcessing(queued, { case: 'refused', value: { code: 2 } });
    expect((await check(queued)).cancelRefusal).toBe('the return is closed');
  });

  test('says that an instant refund is open, with its amount, until it has ended', async () => {
    const of = await submitted();
    const id = await instantRefund(of);
    await expectProcessing(of, { case: 'skippedInstantRefund' });
    expect(await check(of)).toMatchObject({
      cancelRefusal: '',
      instantRefunds: [
        { id, state: InstantRefundState.OPEN, money: { value: '8.00', currency: 'GBP' } },
      ],
    });
    await endInstantRefund(db.pool, { shopId: of.shopId, id, state: 'returned' });
    const { cancelRefusal } = await check(of);
    expect(cancelRefusal).toMatch(/^the shopper keeps an instant refund/);
    await expect(cancel(of)).rejects.toMatchObject({ message: cancelRefusal });
    await expectProcessing(of, { case: 'queued' });
  });

  test('says that the shop has no commerce provider, without counting a refused return', async () => {
    const of = await submitted();
    let asked: object | undefined;
    const none = {
      ...anyProvider(),
      of: async (_: unknown, about: object) => {
        asked = about;
        return undefined;
      },
    };
    expect((await check(of, none)).process?.result).toMatchObject({
      case: 'refused',
      value: { code: 3 },
    });
    expect(asked).toMatchObject({ isCheck: true });
  });

  test('says that a cancellation cancels the exchange order first', async () => {
    const of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    const refusing = creating(createEmbeddedCommerce(db.pool), 'refund', () =>
      Promise.reject(new CommerceFailure('final', 'card closed')),
    );
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, refusing));
    expect(await check(of)).toMatchObject({ cancelRefusal: '', cancelsOrder: true });
    await cancel(of);
    expect((await reload(db.pool, of)).processing).toBe(true);
  });
});
