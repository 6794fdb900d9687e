import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import {
  type GiftCard,
  GiftCardSchema,
  type RecordGiftCardRequest,
  RecordGiftCardRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { invalidField, stateForbids } from '../../platform/values/errors.ts';
import { oncePerKey, requestHash } from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  idempotencyKey,
  parseInput,
  text,
  time,
} from '../../platform/values/input.ts';
import { parseAmount, sameDecimal } from '../../platform/values/money.ts';
import { pastTime } from '../fields.ts';
import type { ReturnStore } from '../store/return-store.ts';

const issuedCard = z.object({
  ...callerShape,
  idempotencyKey,
  returnId: id,
  providerOrderId: id,
  name: text(SHORT_TEXT_MAX),
  amount: z.string(),
  currency: z.string(),
  issuedAt: time.optional(),
});
type IssuedCard = z.output<typeof issuedCard>;

/**
 * Records the gift card that a shop's own provider issued for `giftcard.requested` (made by `processing/finish.ts`). The
 * details of the return then show it. A repeated call with the same key and content returns the card of the first call.
 *
 * @throws DomainError INVALID_ARGUMENT for another amount or currency than requested; RETURN_NOT_FOUND;
 *   IDEMPOTENCY_CONFLICT; STATE_FORBIDS when no card was requested, or one was recorded before.
 */
export async function recordGiftCard(
  store: ReturnStore,
  request: RecordGiftCardRequest,
): Promise<GiftCard> {
  const input = parseInput(issuedCard, request);
  const use = {
    shopId: input.shopId,
    operation: 'RecordGiftCard',
    key: input.idempotencyKey,
    hash: requestHash(RecordGiftCardRequestSchema, request),
  };
  return store.inTransaction(input.shopId, async (tx) => {
    const { id: requestId } = await oncePerKey(tx, use, () => addCard(store, tx, input));
    return existing(tx, input.shopId, requestId);
  });
}

async function addCard(store: ReturnStore, tx: pg.PoolClient, input: IssuedCard): Promise<bigint> {
  const { value } = await store.changeIn(
    tx,
    { ...input, addsInput: true },
    async (inside, current) => {
      const requested = await requestedCard(inside, input);
      if (current.giftCardOrder) throw stateForbids('the gift card of the return was recorded');
      requireSame(input, requested);
      await insertCard(inside, input, requested);
      const { amount, currency } = requested;
      const facts = { amount, currency, provider_id: `${input.providerOrderId}` };
      const entry = { kind: 'giftcard.issued', text: 'The gift card was issued' };
      return {
        value: requested.id,
        timeline: [{ returnId: current.id, ...entry, facts }],
      };
    },
  );
  return value;
}

interface RequestedCard {
  readonly id: bigint;
  readonly amount: string;
  readonly currency: string;
}

/**
 * Returns the card that was requested. The caller must hold the lock of the return, so that no second card is recorded
 * at the same time.
 */
async function requestedCard(
  tx: Queryable,
  { shopId, returnId }: IssuedCard,
): Promise<RequestedCard> {
  const { rows } = await tx.query<RequestedCard>(
    'select id, amount, currency from gift_card_requests where shop_id = $1 and return_id = $2',
    [shopId, returnId],
  );
  if (!rows[0]) throw stateForbids('no gift card was requested for the return');
  return rows[0];
}

/**
 * Requires the requested amount and currency. A card with another value would make the details of the return wrong, and
 * the merchant's accounts.
 */
function requireSame(input: IssuedCard, { amount, currency }: RequestedCard): void {
  if (input.currency !== currency) throw invalidField('currency', `must be ${currency}`);
  parseAmount('amount', input.amount, currency);
  if (!sameDecimal(input.amount, amount)) {
    throw invalidField('amount', `must be ${amount}, as requested`);
  }
}

async function insertCard(
  tx: Queryable,
  { shopId, returnId, providerOrderId, name, issuedAt }: IssuedCard,
  { amount, currency }: RequestedCard,
): Promise<void> {
  await tx.query(
    `insert into provider_orders (shop_id, return_id, kind, provider_order_id, name, value, currency, created_at)
     values ($1, $2, 'gift_card', $3, $4, $5, $6, $7)`,
    [
      shopId,
      returnId,
      providerOrderId,
      name,
      amount,
      currency,
      issuedAt ? pastTime('issued_at', issuedAt) : new Date(),
    ],
  );
}

interface CardRow extends RequestedCard {
  readonly returnId: bigint;
  readonly providerOrderId: bigint;
  readonly name: string;
  readonly issuedAt: Date;
}

async function existing(db: Queryable, shopId: bigint, requestId: bigint): Promise<GiftCard> {
  const { rows } = await db.query<CardRow>(
    `select r.id, r.return_id as "returnId", p.value as amount, p.currency,
            p.provider_order_id as "providerOrderId", p.name, p.created_at as "issuedAt"
       from gift_card_requests r
       join provider_orders p
         on p.shop_id = r.shop_id and p.return_id = r.return_id and p.kind = 'gift_card'
      where r.shop_id = $1 and r.id = $2`,
    [shopId, requestId],
  );
  const [row] = rows;
  if (!row) throw new Error('a recorded gift card does not exist');
  const { id: ofRequest, amount: value, currency, issuedAt, ...card } = row;
  return create(GiftCardSchema, {
    ...card,
    id: ofRequest,
    money: { value, currency },
    issuedAt: timestampFromDate(issuedAt),
  });
}
