import type pg from 'pg';
import { z } from 'zod';
import {
  type ProcessReturnRequest,
  ProcessReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { claimKey, findUse, keyUseOf } from '../../platform/idempotency.ts';
import { callerShape, id, optionalIdempotencyKey, parseInput, text } from '../../platform/input.ts';
import { committing, inTransaction } from '../../platform/postgres.ts';
import type { AdditionalDetails } from '../commerce/provider.ts';
import type { Providers } from '../commerce/providers.ts';
import { requireRevision } from '../errors.ts';
import { detailText, parseDetails } from './details.ts';
import {
  lockRuleInput,
  type ProcessAnswer,
  resultWithoutQueueing,
  withoutProvider,
} from './process-rule.ts';
import { queueJob } from './queue.ts';

const processInput = z.object({
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  returnId: id,
  source: text(50),
  expectedRevision: z.bigint(),
});

/**
 * Queues a return for processing, or returns why not. Under the row lock of the return it checks, in this order:
 *
 * - the return exists;
 * - it is not flagged;
 * - it is not closed, cancelled or expired;
 * - its cancellation has not begun;
 * - it has no open instant refund (`skippedInstantRefund`);
 * - it is not queued already (`alreadyQueued`: the details of this call are ignored);
 * - it has the expected revision: its amounts are those that the caller has read;
 * - its shop has a commerce provider.
 *
 * After `queued`, the run publishes `return.closed` or `return.processing.failed`. A call without details uses those of
 * the last failed run. A repeated call with the same idempotency key returns `queued` again.
 *
 * @throws DomainError NOT_FOUND for a return that the shop does not have; INVALID_ARGUMENT, also for details beyond
 *   their limits; IDEMPOTENCY_CONFLICT; REVISION_CONFLICT.
 */
export async function processReturn(
  pool: pg.Pool,
  request: ProcessReturnRequest,
  providers: Providers,
): Promise<ProcessAnswer> {
  const { shopId, returnId, source, actor, expectedRevision } = parseInput(processInput, request);
  const requestDetails = parseDetails(request.details);
  const hasDetails = Object.keys(requestDetails).length > 0;
  // The repeat of a call whose answer was lost may have another revision.
  const content = { ...request, expectedRevision: 0n };
  const use = keyUseOf('ProcessReturn', ProcessReturnRequestSchema, content);

  return inTransaction(pool, async (tx) => {
    const current = await lockRuleInput(tx, { shopId, returnId });
    // A call that queues nothing stores no key. So a repeat of it is checked again.
    const { missingLineItemIds } = current;
    const queued = { result: { case: 'queued', value: {} }, missingLineItemIds } as const;
    if (use && (await findUse(tx, use)) !== undefined) return queued;
    const result = resultWithoutQueueing(current);
    if (result) return { result, missingLineItemIds };
    if (expectedRevision !== 0n) requireRevision(current, expectedRevision);
    if (!(await providers.of(tx, { shopId, returnId }))) {
      return { result: withoutProvider(), missingLineItemIds };
    }
    const details = hasDetails ? requestDetails : current.previousDetails;
    const job = { shopId, returnId, details, source, actor, isCancellation: false };
    await claimKey(tx, use, returnId);
    await committing(tx, () => queueJob(tx, job, queuedEntry(request, details)));
    return queued;
  });
}

function queuedEntry({ returnId, source }: ProcessReturnRequest, details: AdditionalDetails) {
  const facts = Object.entries(details).map(([key, value]) => [key, detailText(value)]);
  return {
    returnId,
    kind: 'return.processing.queued',
    text: source === '' ? 'Processing was requested' : `Processing was requested (${source})`,
    facts: Object.fromEntries(facts),
  };
}
