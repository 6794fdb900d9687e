import { z } from 'zod';
import type { Return as Details } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type FlagReturnRequest,
  FlagReturnRequestSchema,
  type UnflagReturnRequest,
  UnflagReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { COMMENT_MAX } from '../../contract/limits.ts';
import { keyUseOf } from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  optionalIdempotencyKey,
  parseInput,
  text,
} from '../../platform/values/input.ts';
import { Return } from '../return.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { flagReasons } from '../submit/submission.ts';

const unflag = z.object({
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  returnId: id,
  reasons: flagReasons,
  comment: text(COMMENT_MAX),
});
const flag = unflag.extend({ reasons: flagReasons.min(1, 'must hold at least one reason') });

/**
 * Puts an open return into review. It cannot be processed until a user ends the review.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND; IDEMPOTENCY_CONFLICT; STATE_FORBIDS when the return is not open, or
 *   is queued for processing.
 */
export async function flagReturn(store: ReturnStore, request: FlagReturnRequest): Promise<Details> {
  const input = parseInput(flag, request);
  const use = keyUseOf('FlagReturn', FlagReturnRequestSchema, request);
  return store.changeOnce(input, use, async (_tx, current) => {
    const flagged = new Return(current).flag(input.reasons);
    return {
      value: undefined,
      stateChanges: [flagged],
      timeline: [entry('return.flagged', input)],
    };
  });
}

/**
 * Ends the review of a return. The return is open again.
 *
 * @throws DomainError INVALID_ARGUMENT; NOT_FOUND; IDEMPOTENCY_CONFLICT; STATE_FORBIDS when the return is not in
 *   review, or is queued for processing.
 */
export async function unflagReturn(
  store: ReturnStore,
  request: UnflagReturnRequest,
): Promise<Details> {
  const input = parseInput(unflag, request);
  const use = keyUseOf('UnflagReturn', UnflagReturnRequestSchema, request);
  return store.changeOnce(input, use, async (_tx, current) => {
    const unflagged = new Return(current).unflag();
    return {
      value: undefined,
      stateChanges: [unflagged],
      timeline: [entry('return.unflagged', input)],
    };
  });
}

function entry(kind: string, request: z.output<typeof unflag>) {
  const words = request.comment || request.reasons.join('; ');
  const facts = request.reasons.length > 0 ? { reasons: request.reasons.join('; ') } : {};
  return { returnId: request.returnId, kind, text: words, facts };
}
