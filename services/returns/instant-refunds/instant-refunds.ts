import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type InstantRefund,
  InstantRefundSchema,
  InstantRefundState,
  InstantRefundStateSchema,
  type OpenInstantRefundRequest,
  OpenInstantRefundRequestSchema,
  type SettleInstantRefundRequest,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import {
  inTransaction,
  type Queryable,
  violatedConstraint,
} from '../../platform/postgres/postgres.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { DomainError, invalidField, stateForbids } from '../../platform/values/errors.ts';
import { oncePerKey, requestHash } from '../../platform/values/idempotency.ts';
import { callerShape, id, idempotencyKey, parseInput, text } from '../../platform/values/input.ts';
import { formatAmount, minorOf, parseAmount } from '../../platform/values/money.ts';
import { alreadyOpen, returnNotFound } from '../errors.ts';
import { fulfilmentOf } from '../processing/effect-store.ts';
import type { ReturnRef } from '../return.ts';
import { effectsMade } from '../return.ts';
import { addTimeline } from '../store/timeline-store.ts';
import {
  endInstantRefund,
  type InstantRefundRow,
  insertInstantRefund,
  lockInstantRefund,
  readInstantRefund,
} from './instant-refunds-store.ts';

const instantRefundState = enumText(InstantRefundStateSchema);

const openInput = z.object({
  ...callerShape,
  idempotencyKey,
  returnId: id,
  amount: z.string(),
  chargeReference: text(SHORT_TEXT_MAX),
});

/**
 * Records that the shopper was paid before the goods arrived. While the instant refund is open, the return is not
 * processed. Adds a timeline entry, and publishes no event.
 *
 * @throws DomainError RETURN_NOT_FOUND; ALREADY_OPEN; IDEMPOTENCY_CONFLICT; STATE_FORBIDS when the return is neither
 *   open nor in review, is queued for processing, or a failed run refunded it or may have; INVALID_ARGUMENT for an
 *   amount that is not above zero in the presentment currency.
 */
export async function openInstantRefund(
  pool: pg.Pool,
  request: OpenInstantRefundRequest,
): Promise<InstantRefund> {
  const input = parseInput(openInput, request);
  const hash = requestHash(OpenInstantRefundRequestSchema, request);
  const use = { shopId: input.shopId, operation: 'OpenInstantRefund', key: input.idempotencyKey };
  return inTransaction(pool, async (tx) => {
    const used = await oncePerKey(tx, { ...use, hash }, () => open(tx, input));
    return instantRefundOf(tx, input.shopId, used.id);
  });
}

async function open(tx: Queryable, input: z.output<typeof openInput>): Promise<bigint> {
  const { shopId, returnId, chargeReference, actor } = input;
  const current = await lockReturn(tx, input);
  if (current.state !== 'open' && current.state !== 'review') {
    throw stateForbids(`the return is ${current.state}`);
  }
  if (current.processing) throw stateForbids('the return is queued for processing');
  // After a refund, an instant refund would pay the shopper twice. After other effects it would not.
  const refund = await fulfilmentOf(tx, input, 'refund');
  if (refund !== 'none') throw effectsMade(refund);
  const currency = current.presentment_currency;
  const minor = parseAmount('amount', input.amount, currency);
  if (minor === 0n) throw invalidField('amount', 'must be above zero');
  const amount = formatAmount(minor, currency);
  const creditId = await insertInstantRefund(tx, {
    shopId,
    returnId,
    amount,
    currency,
    chargeReference,
  }).catch((error: unknown) => {
    if (violatedConstraint(error) !== 'instant_refunds_one_open') throw error;
    throw alreadyOpen('an instant refund of the return');
  });
  await addTimeline(tx, { shopId, actor }, [
    {
      returnId,
      kind: 'instant_refund.opened',
      text: 'An instant refund was paid',
      facts: { amount, currency, credit_id: String(creditId) },
    },
  ]);
  return creditId;
}

interface LockedReturn {
  readonly state: string;
  readonly processing: boolean;
  readonly presentment_currency: string;
}

async function lockReturn(tx: Queryable, of: ReturnRef): Promise<LockedReturn> {
  const { rows } = await tx.query<LockedReturn>(
    `select state, processing, presentment_currency from returns
     where shop_id = $1 and id = $2 for update`,
    [of.shopId, of.returnId],
  );
  if (!rows[0]) throw returnNotFound();
  return rows[0];
}

const resultInput = z.object({
  ...callerShape,
  creditId: id,
  result: z
    .enum(InstantRefundState, 'is unknown')
    .refine(
      (state) => state > InstantRefundState.OPEN,
      'must be one of RETURNED, CHARGED and CHARGE_FAILED',
    ),
});

const RESULT_TEXT = {
  returned: 'The goods arrived: the shopper keeps the instant refund',
  charged: 'The goods did not arrive: the instant refund was charged back',
  charge_failed: 'The goods did not arrive, and charging the instant refund back failed',
} as const;

/**
 * Records how an instant refund ended. Then the return can be processed. A repeated call with the same result changes
 * nothing.
 *
 * @throws DomainError CREDIT_NOT_FOUND; STATE_FORBIDS when the instant refund ended with another result.
 */
export async function settleInstantRefund(
  pool: pg.Pool,
  request: SettleInstantRefundRequest,
): Promise<InstantRefund> {
  const { shopId, actor, creditId, result } = parseInput(resultInput, request);
  const state = instantRefundState.toText(result);
  return inTransaction(pool, async (tx) => {
    const found = await lockInstantRefund(tx, shopId, creditId);
    if (!found) throw instantRefundNotFound();
    if (found.state === state) return toMessage(found);
    if (found.state !== 'open') throw stateForbids(`the instant refund ended as ${found.state}`);
    await endInstantRefund(tx, { shopId, id: creditId, state });
    await addTimeline(tx, { shopId, actor }, [
      {
        returnId: found.return_id,
        kind: `instant_refund.${state}`,
        text: RESULT_TEXT[resultOf(state)],
        facts: { credit_id: String(creditId) },
      },
    ]);
    return toMessage({ ...found, state });
  });
}

function resultOf(state: string): keyof typeof RESULT_TEXT {
  if (state === 'returned' || state === 'charged' || state === 'charge_failed') return state;
  throw new RangeError(`${state} is not a result of an instant refund`);
}

async function instantRefundOf(
  tx: Queryable,
  shopId: bigint,
  creditId: bigint,
): Promise<InstantRefund> {
  const found = await readInstantRefund(tx, shopId, creditId);
  if (!found) throw instantRefundNotFound();
  return toMessage(found);
}

function instantRefundNotFound(): DomainError {
  return new DomainError(Code.NotFound, ErrorReason.CREDIT_NOT_FOUND, 'no such instant refund');
}

export function toMessage(row: InstantRefundRow): InstantRefund {
  const { currency } = row;
  return create(InstantRefundSchema, {
    id: row.id,
    returnId: row.return_id,
    money: { value: formatAmount(minorOf(row.amount, currency), currency), currency },
    chargeReference: row.charge_reference,
    state: instantRefundState.fromText(row.state),
    createdAt: timestampFromDate(row.created_at),
  });
}
