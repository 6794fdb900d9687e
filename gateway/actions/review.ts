import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** The reasons and the comment when a return is flagged or unflagged. */
export interface ReviewWords {
  readonly returnId: bigint;
  /** At least one is needed to flag. */
  readonly reasons: readonly string[];
  readonly comment?: string | undefined;
  readonly idempotencyKey?: string;
}

/** Flags an open return for review: it cannot be processed until it is unflagged. */
export async function flagReturn(context: ActionContext, words: ReviewWords): Promise<Return> {
  const answer = await context.services.returns.flagReturn(requestOf(context, words));
  return sent(answer.return, 'return');
}

/** Unflags a return in review: it is open again. */
export async function unflagReturn(context: ActionContext, words: ReviewWords): Promise<Return> {
  const answer = await context.services.returns.unflagReturn(requestOf(context, words));
  return sent(answer.return, 'return');
}

/** Cancels a return that is open or in review. This cannot be undone. */
export async function cancelReturn(
  context: ActionContext,
  o: { returnId: bigint; reason?: string | undefined; idempotencyKey?: string },
): Promise<Return> {
  const { returnId, reason = '', idempotencyKey = '' } = o;
  const request = { ...callerOf(context), returnId, reason, idempotencyKey };
  return sent((await context.services.returns.cancelReturn(request)).return, 'return');
}

function requestOf(context: ActionContext, words: ReviewWords) {
  const { returnId, reasons, comment = '', idempotencyKey = '' } = words;
  return { ...callerOf(context), returnId, reasons: [...reasons], comment, idempotencyKey };
}
