import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { reasonOf } from '../../services/platform/values/errors.ts';
import { type ActionContext, callerOf, sent } from './context.ts';
import { findReturn, noteMoney } from './returns.ts';

/** Which return to flag or unflag, and why. */
export interface ReviewInput {
  readonly returnId: bigint;
  /** To flag a return, at least one reason is needed. */
  readonly reasons: readonly string[];
  readonly comment?: string | undefined;
  readonly idempotencyKey?: string;
}

/** Flags an open return for review. It cannot be processed until it is unflagged. */
export async function flagReturn(context: ActionContext, input: ReviewInput): Promise<Return> {
  const response = await context.services.returns.flagReturn(requestOf(context, input));
  return sent(response.return, 'return');
}

/** Unflags a return in review, which becomes open again. */
export async function unflagReturn(context: ActionContext, input: ReviewInput): Promise<Return> {
  const response = await context.services.returns.unflagReturn(requestOf(context, input));
  return sent(response.return, 'return');
}

/**
 * Cancels a return that is open or in review. This cannot be undone. When the return has an exchange order, the returns
 * service cancels that order first, in the background.
 */
export async function cancelReturn(
  context: ActionContext,
  o: { returnId: bigint; reason?: string | undefined; idempotencyKey?: string },
): Promise<Return> {
  const { returnId, reason = '', idempotencyKey = '' } = o;
  const request = { ...callerOf(context), returnId, reason, idempotencyKey };
  const cancelled = sent((await context.services.returns.cancelReturn(request)).return, 'return');
  noteMoney(context, announcedBy(cancelled));
  return cancelled;
}

/** What a return announces, for {@link noteMoney}. */
export function announcedBy({ order, currency, totals }: Return) {
  const { refund = '', returnCreditTotal: returnCredit = '' } = totals ?? {};
  return { orderName: order?.name ?? '', currency, refund, returnCredit };
}

/**
 * Cancels a return for a caller that cannot know its state, as {@link cancelReturn} does. A return that is cancelled
 * already stays as it is, and is returned.
 *
 * Rejects with RETURN_NOT_FOUND for a return that the caller does not reach, and with STATE_FORBIDS for one that can no
 * longer be cancelled.
 */
export async function ensureCancelled(
  context: ActionContext,
  o: Parameters<typeof cancelReturn>[1],
): Promise<Return> {
  const selector = { case: 'returnId', value: o.returnId } as const;
  await findReturn(context, selector);
  try {
    return await cancelReturn(context, o);
  } catch (error) {
    if (reasonOf(error) !== ErrorReason.STATE_FORBIDS) throw error;
    const current = await findReturn(context, selector);
    if (current.state !== ReturnState.CANCELLED) throw error;
    return current;
  }
}

function requestOf(context: ActionContext, input: ReviewInput) {
  const { returnId, reasons, comment = '', idempotencyKey = '' } = input;
  return { ...callerOf(context), returnId, reasons: [...reasons], comment, idempotencyKey };
}
