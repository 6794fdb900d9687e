import type pg from 'pg';
import { z } from 'zod';
import type { Return as Details } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type CancelReturnRequest,
  CancelReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { keyUseOf } from '../platform/idempotency.ts';
import { callerShape, id, optionalIdempotencyKey, parseInput, text } from '../platform/input.ts';
import { isInstantRefundKept } from './instant-refunds/instant-refunds-store.ts';
import { cancelOpenLabelRequest } from './labels/label-request-store.ts';
import { mayHaveFulfilled } from './processing/outcomes.ts';
import { Return } from './return.ts';
import { changeReturnOnce } from './store/change.ts';

const cancellation = z.object({
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  returnId: id,
  reason: text(4_000),
});

/**
 * Cancels a return that is open or in review, and its open label request.
 *
 * @throws DomainError NOT_FOUND; STATE_FORBIDS as {@link Return.cancel} says. An open instant refund does not prevent
 *   it.
 */
export async function cancelReturn(pool: pg.Pool, request: CancelReturnRequest): Promise<Details> {
  const input = parseInput(cancellation, request);
  const use = keyUseOf('CancelReturn', CancelReturnRequestSchema, request);
  return changeReturnOnce(pool, input, use, async (tx, current) => {
    const cancelled = new Return(current).cancel({
      mayHaveFulfilled: await mayHaveFulfilled(tx, input),
      instantRefundKept: await isInstantRefundKept(tx, input),
    });
    const text = input.reason || 'The return was cancelled';
    return {
      value: undefined,
      stateChanges: [cancelled],
      events: await cancelOpenLabelRequest(tx, input),
      timeline: [{ returnId: current.id, kind: 'return.cancelled', text }],
    };
  });
}
