import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { Outcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  GiftCardMode,
  RecordGiftCardRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  eventsOf,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { storeOf } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { recordGiftCard } from './gift-cards.ts';

// The card that a shop's own provider issues for a closed return.

let db: TestDatabase;
let of: Return;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

async function closed(giftCardMode: GiftCardMode = GiftCardMode.EXTERNAL): Promise<Return> {
  const credit = { outcome: Outcome.CREDIT, amounts: { returnCredit: { shop: '20.00' } } };
  const made = await newReturn(db.pool, await newShop(db.pool, { giftCardMode }), credit);
  await requestProcessing(db.pool, made);
  await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
  return reload(db.pool, made);
}
beforeEach(async () => {
  of = await closed();
});

const CARD = { idempotencyKey: 'card', providerOrderId: 7n, amount: '20.00', currency: 'GBP' };

function record(
  more: MessageInitShape<typeof RecordGiftCardRequestSchema> = {},
  { shopId, id: returnId }: Pick<Return, 'shopId' | 'id'> = of,
) {
  const request = { shopId, actor, returnId, ...CARD, ...more };
  return recordGiftCard(storeOf(db.pool), create(RecordGiftCardRequestSchema, request));
}

const forbidden = (text: string) => ({
  code: Code.FailedPrecondition,
  message: expect.stringContaining(text),
});

describe('a recorded gift card', () => {
  test('has the id of its request, and is in the details of the return', async () => {
    const issuedAt = timestampFromDate(new Date(Date.now() - 60_000));
    const card = await record({ name: 'Card 7', issuedAt });
    const requested = (await eventsOf(db.pool, of)).find(
      ({ trigger }) => trigger === 'giftcard.requested',
    );
    expect(requested?.detail).toMatchObject({ case: 'giftCard', value: { id: card.id } });
    expect(card).toMatchObject({
      returnId: of.id,
      providerOrderId: 7n,
      name: 'Card 7',
      money: { value: '20.00', currency: 'GBP' },
    });
    expect(card.issuedAt && timestampDate(card.issuedAt)).toEqual(timestampDate(issuedAt));
    const after = await reload(db.pool, of);
    expect(after.giftCardOrder).toMatchObject({ id: 7n, name: 'Card 7' });
    expect(after.giftCardPresentment).toMatchObject({ value: '20.00', currency: 'GBP' });
    expect(after.revision).toBe(of.revision + 1n);
    expect((await triggersOf(db.pool, of)).at(-1)).toBe('return.updated');
    expect((await timelineOf(db.pool, of)).at(-1)).toMatchObject({ kind: 'giftcard.issued' });
  });

  test('is recorded once by calls with one key, also at once', async () => {
    const cards = await Promise.all([record(), record(), record()]);
    expect(new Set(cards.map(({ id }) => id)).size).toBe(1);
    expect(await record({ amount: '20.0' }).catch(({ reason }) => reason)).toBe(
      ErrorReason.IDEMPOTENCY_CONFLICT,
    );
    const updates = (await triggersOf(db.pool, of)).filter((one) => one === 'return.updated');
    expect(updates).toHaveLength(1);
  });

  test('may be written with fewer zeros', async () => {
    expect(await record({ amount: '20' })).toMatchObject({ money: { value: '20.00' } });
  });
});

describe('a gift card is rejected', () => {
  test('when another one was recorded', async () => {
    await record();
    const second = record({ idempotencyKey: 'other', providerOrderId: 8n });
    await expect(second).rejects.toMatchObject(forbidden('was recorded'));
  });

  test('when none was requested', async () => {
    const own = await closed(GiftCardMode.PROVIDER);
    await expect(record({}, own)).rejects.toMatchObject(forbidden('no gift card was requested'));
    const open = await newReturn(db.pool, await newShop(db.pool));
    await expect(record({}, open)).rejects.toMatchObject(forbidden('no gift card was requested'));
  });

  test.each([
    ['amount', { amount: '19.99' }],
    ['amount', { amount: 'many' }],
    ['currency', { currency: 'EUR' }],
    ['provider_order_id', { providerOrderId: 0n }],
    ['idempotency_key', { idempotencyKey: '' }],
    ['issued_at', { issuedAt: timestampFromDate(new Date(Date.now() + 3_600_000)) }],
  ])('with another %s than allowed, and changes nothing', async (field, more) => {
    await expect(record(more)).rejects.toMatchObject({ code: Code.InvalidArgument, field });
    expect(await reload(db.pool, of)).toEqual(of);
  });
});
