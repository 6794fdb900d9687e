import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import { WithdrawalHandling } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  PolicyUse,
  type Return,
  SubmitReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type DeclareWithdrawalRequest,
  DeclareWithdrawalRequestSchema,
  type ListWithdrawalsRequest,
  ReturnWithdrawalRequestSchema,
  type Withdrawal,
} from '../../../proto/gen/rms/returns/v1/withdrawals_pb.ts';
import { EMAIL_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { appendEvents } from '../../platform/outbox/append.ts';
import { afterCommit, inTransaction } from '../../platform/postgres/postgres.ts';
import { stateForbids } from '../../platform/values/errors.ts';
import { oncePerKey, requestHash } from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  idempotencyKey,
  parseInput,
  requiredText,
  time,
} from '../../platform/values/input.ts';
import { bindCursor, placeInCursor } from '../../platform/values/list-cursor.ts';
import { EMAIL_FORM } from '../../platform/values/text.ts';
import { pastTime } from '../fields.ts';
import { getEligibility } from '../policy/get-eligibility.ts';
import { loadPolicy } from '../policy/policy-store.ts';
import { decodeCursor, encodeCursor, pageSize } from '../queries/cursor.ts';
import { loadSettings } from '../settings.ts';
import { type SubmitDeps, submitReturn } from '../submit/submit.ts';
import {
  insertJob,
  insertWithdrawal,
  loadWithdrawal,
  readWithdrawals,
} from './withdrawal-store.ts';

const declaration = z.object({
  ...callerShape,
  idempotencyKey,
  orderName: requiredText(SHORT_TEXT_MAX),
  name: requiredText(SHORT_TEXT_MAX),
  email: requiredText(EMAIL_MAX).regex(EMAIL_FORM, 'must be an e-mail address'),
  declaredAt: time.optional(),
});

/**
 * Records that a shopper withdraws from a contract, as the shopper states it. Nothing is looked up, so it works for
 * contracts that nobody knows here, and while the shop's platform does not answer. If the policy says so, a worker makes a
 * return of it.
 *
 * @param deps.onJob called when there is work for this worker.
 *
 * @throws DomainError INVALID_ARGUMENT; SHOP_NOT_CONFIGURED; IDEMPOTENCY_CONFLICT.
 */
export async function declareWithdrawal(
  { pool, onJob }: { readonly pool: pg.Pool; readonly onJob: () => void },
  request: DeclareWithdrawalRequest,
): Promise<Withdrawal> {
  const input = parseInput(declaration, request);
  const { shopId, actor } = input;
  const declaredAt = input.declaredAt ? pastTime('declared_at', input.declaredAt) : new Date();
  await loadSettings(pool, shopId);
  // A repeat may be sent at another time.
  const { declaredAt: _, ...content } = request;
  const hash = requestHash(DeclareWithdrawalRequestSchema, content);
  const use = { shopId, operation: 'DeclareWithdrawal', key: input.idempotencyKey, hash };
  return inTransaction(pool, async (tx) => {
    const { id } = await oncePerKey(tx, use, async () => {
      const made = await insertWithdrawal(tx, { ...input, declaredAt });
      const { policy } = await loadPolicy(tx, shopId);
      if (policy.withdrawals === WithdrawalHandling.RETURN) {
        await insertJob(tx, shopId, made);
        afterCommit(tx, onJob);
      }
      const value = await loadWithdrawal(tx, shopId, made);
      await appendEvents(tx, [
        {
          trigger: 'withdrawal.received',
          shopId,
          key: `${shopId}:withdrawal:${made}`,
          actor,
          detail: { case: 'withdrawal', value },
        },
      ]);
      return made;
    });
    return loadWithdrawal(tx, shopId, id);
  });
}

const list = z.object({ ...callerShape, pageSize, cursor: z.string() });
const cursorParts = z.tuple([z.string().regex(/^\d{1,16}$/)]);

/** Lists the withdrawals of a shop, newest first. @throws DomainError INVALID_ARGUMENT. */
export async function listWithdrawals(
  pool: pg.Pool,
  request: ListWithdrawalsRequest,
): Promise<{ readonly withdrawals: Withdrawal[]; readonly nextCursor: string }> {
  const input = parseInput(list, request);
  const filters = { list: 'withdrawals', shopId: input.shopId };
  const [before] = decodeCursor(placeInCursor(input.cursor, filters), cursorParts) ?? [null];
  const limit = input.pageSize + 1;
  const found = await readWithdrawals(pool, input.shopId, { before, limit });
  const withdrawals = found.slice(0, input.pageSize);
  const last = withdrawals.at(-1);
  const next = found.length > withdrawals.length && last ? encodeCursor([`${last.id}`]) : '';
  return { withdrawals, nextCursor: bindCursor(next, filters) };
}

const named = z.object({ ...callerShape, withdrawalId: id });

/**
 * Makes a return of all that is left of the order of a withdrawal. The policy refuses nothing of it, because a shopper
 * has the right to withdraw whatever the policy says; its conditions for a review and its fees apply. A repeated call
 * returns the first return.
 *
 * @throws DomainError NOT_FOUND; ORDER_NOT_FOUND; STATE_FORBIDS when nothing is left of the order; and as
 *   {@link submitReturn}.
 */
export async function returnWithdrawal(
  deps: SubmitDeps,
  request: MessageInitShape<typeof ReturnWithdrawalRequestSchema>,
): Promise<Return> {
  const { shopId, withdrawalId, actor } = parseInput(
    named,
    create(ReturnWithdrawalRequestSchema, request),
  );
  const withdrawal = await loadWithdrawal(deps.pool, shopId, withdrawalId);
  const present = await returnOf(deps, withdrawal);
  if (present) return present;
  const { orderName: value, email } = withdrawal;
  const asked = { shopId, actor, order: { case: 'orderName', value } as const, shopper: email };
  const eligibility = await getEligibility(deps, asked, { refusesNothing: true });
  const left = eligibility.lines.filter((line) => line.returnableQuantity > 0);
  if (left.length === 0) throw stateForbids('nothing is left of the order that could be returned');
  const submission = create(SubmitReturnRequestSchema, {
    ...{ shopId, actor, withdrawalId, findOrder: true, policy: PolicyUse.OVERRIDE },
    idempotencyKey: `withdrawal:${withdrawalId}`,
    order: { providerOrderId: eligibility.providerOrderId },
    lines: left.map(({ providerLineItemId, returnableQuantity: quantity }) => ({
      ...{ providerLineItemId, quantity },
    })),
  });
  try {
    return (await submitReturn(deps, submission)).return;
  } catch (error) {
    // Another call may have made the return in the meantime.
    const again = await loadWithdrawal(deps.pool, shopId, withdrawalId);
    const made = await returnOf(deps, again);
    if (made) return made;
    throw error;
  }
}

async function returnOf(
  { store, pool }: Pick<SubmitDeps, 'store' | 'pool'>,
  { shopId, returnId }: Withdrawal,
): Promise<Return | undefined> {
  return returnId === 0n ? undefined : store.load(pool, shopId, returnId);
}
