import { z } from 'zod';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  type Return as Details,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type CancelReturnRequest,
  CancelReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { COMMENT_MAX } from '../../contract/limits.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { keyUseOf } from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  optionalIdempotencyKey,
  parseInput,
  text,
} from '../../platform/values/input.ts';
import { isInstantRefundKept } from '../instant-refunds/instant-refunds-store.ts';
import { cancelOpenLabelRequest } from '../labels/label-requests.ts';
import { requestedOf } from '../processing/effect-store.ts';
import { LAST_DETAILS, queueJob, storedDetails } from '../processing/jobs.ts';
import type { ReturnRef } from '../return.ts';
import { Return, type StateChange } from '../return.ts';
import type { ReturnStore } from '../store/return-store.ts';

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
    return {
      value: undefined,
      stateChanges: [change],
      events: await cancelOpenLabelRequest(tx, input),
      timeline: [cancelledEntry(current, input)],
    };
  });
}

/** A return in review that a user of the shop cancels was declined. */
function cancelledEntry(current: Details, { actor, reason }: z.output<typeof cancellation>) {
  const isDeclined = current.state === ReturnState.REVIEW && actor.kind === Actor_Kind.USER;
  return {
    returnId: current.id,
    kind: 'return.cancelled',
    text: reason || (isDeclined ? 'The return was declined' : 'The return was cancelled'),
    ...(isDeclined && { facts: { declined: 'true' } }),
  };
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

/** What a cancellation of a return does. */
export interface Cancellation {
  readonly change: StateChange;
  /** Whether a job cancels the exchange order first. */
  readonly cancelsOrder: boolean;
}

/**
 * Decides what a cancellation does. A caller that then cancels must hold the row lock of the return.
 *
 * @throws DomainError STATE_FORBIDS as {@link Return.cancel} says.
 */
export async function cancellationOf(
  db: Queryable,
  details: ConstructorParameters<typeof Return>[0],
  of: ReturnRef,
): Promise<Cancellation> {
  const { exchange, isOrderCancelled, others } = await requestedOf(db, of);
  const change = new Return(details).cancel({
    fulfilment: others,
    instantRefundKept: await isInstantRefundKept(db, of),
  });
  return { change, cancelsOrder: exchange !== undefined && !isOrderCancelled };
}
