import { z } from 'zod';
import type { Return as Details } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type CancelReturnRequest,
  CancelReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { COMMENT_MAX } from '../contract/limits.ts';
import { keyUseOf } from '../platform/idempotency.ts';
import { callerShape, id, optionalIdempotencyKey, parseInput, text } from '../platform/input.ts';
import { onlyRow } from '../platform/only-row.ts';
import type { Queryable } from '../platform/postgres.ts';
import { cancellationOf } from './cancellation-rule.ts';
import { cancelOpenLabelRequest } from './labels/label-request-store.ts';
import { LAST_DETAILS, storedDetails } from './processing/jobs.ts';
import { queueJob } from './processing/queue.ts';
import type { Return } from './return.ts';
import type { ReturnStore } from './store/return-store.ts';

const cancellation = z.object({
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  returnId: id,
  reason: text(COMMENT_MAX),
});

/**
 * Cancels a return that is open or in review, and its open label request. If a run of processing made an exchange
 * order, or may have made one, a job first cancels the order and then the return. Until then the return is queued.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND; IDEMPOTENCY_CONFLICT; STATE_FORBIDS as {@link Return.cancel} says.
 *   An open instant refund does not prevent the cancellation.
 */
export async function cancelReturn(
  store: ReturnStore,
  request: CancelReturnRequest,
): Promise<Details> {
  const input = parseInput(cancellation, request);
  const use = keyUseOf('CancelReturn', CancelReturnRequestSchema, request);
  return store.changeOnce(input, use, async (tx, current) => {
    const { change, cancelsOrder } = await cancellationOf(tx, current, input);
    if (cancelsOrder) {
      await queueCancellation(tx, input);
      return { value: undefined };
    }
    const text = input.reason || 'The return was cancelled';
    return {
      value: undefined,
      stateChanges: [change],
      events: await cancelOpenLabelRequest(tx, input),
      timeline: [{ returnId: current.id, kind: 'return.cancelled', text }],
    };
  });
}

/** Keeps the additional details of the last failed job, because a later run of processing uses them. */
async function queueCancellation(
  tx: Queryable,
  { shopId, returnId, actor, reason }: z.output<typeof cancellation>,
): Promise<void> {
  const result = await tx.query<{ stored: string | null }>(`select ${LAST_DETAILS} as stored`, [
    shopId,
    returnId,
  ]);
  const details = storedDetails(onlyRow(result).stored ?? '{}');
  const job = { shopId, returnId, details, source: '', actor, isCancellation: true };
  const text = reason || 'The cancellation was requested; the exchange order is cancelled first';
  await queueJob(tx, job, { returnId, kind: 'return.cancellation.queued', text });
}
