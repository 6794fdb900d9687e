import type { MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import {
  type ProcessReturnRequest,
  ProcessReturnRequestSchema,
  type ProcessReturnResponseSchema,
  ProcessReturnResponse_Refused_Code as RefusalCode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { claimKey, findUse, keyUseOf } from '../../platform/idempotency.ts';
import { callerShape, id, optionalIdempotencyKey, parseInput, text } from '../../platform/input.ts';
import { committing, inTransaction, type Queryable, together } from '../../platform/postgres.ts';
import type { AdditionalDetails } from '../commerce/provider.ts';
import { NO_PROVIDER } from '../commerce/provider.ts';
import type { Providers } from '../commerce/providers.ts';
import { returnNotFound } from '../errors.ts';
import { detailText, parseDetails } from './details.ts';
import { LAST_DETAILS, queueJob, storedDetails } from './jobs.ts';

type ProcessResult = NonNullable<MessageInitShape<typeof ProcessReturnResponseSchema>['result']>;

const processInput = z.object({
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  returnId: id,
  source: text(50),
});

/**
 * Queues a return for processing, or returns why not. Checks in this order, under the return's row lock: the return
 * exists; it is not flagged; it is not closed, cancelled or expired; its cancellation has not begun; it has no open
 * instant refund (`skippedInstantRefund`); it is not queued already (`alreadyQueued`: the details of this call are
 * ignored); its shop has a commerce provider. After `queued`, the run publishes `return.closed` or
 * `return.processing.failed`. A call without details uses those of the last failed run. A repeated call with the same
 * idempotency key returns `queued` again.
 *
 * @throws DomainError NOT_FOUND for a return that the shop does not have; INVALID_ARGUMENT for details beyond their
 *   limits.
 */
export async function processReturn(
  pool: pg.Pool,
  request: ProcessReturnRequest,
  providers: Providers,
): Promise<ProcessResult> {
  const { shopId, returnId, source, actor } = parseInput(processInput, request);
  const requestDetails = parseDetails(request.details);
  const hasDetails = Object.keys(requestDetails).length > 0;
  const use = keyUseOf('ProcessReturn', ProcessReturnRequestSchema, request);

  return inTransaction(pool, async (tx) => {
    const current = await lockReturn(tx, { shopId, returnId });
    // A call that queued nothing stores no key, so its repeat is checked again.
    if (use && (await findUse(tx, use)) !== undefined) return { case: 'queued', value: {} };
    const notQueued = resultWithoutQueueing(current);
    if (notQueued) return notQueued;
    if (!(await providers.of(tx, { shopId, returnId }))) return withoutProvider();
    const details = hasDetails ? requestDetails : current.previousDetails;
    const job = { shopId, returnId, details, source, actor, isCancellation: false };
    await claimKey(tx, use, returnId);
    await committing(tx, () => queueJob(tx, job, queuedEntry(request, details)));
    return { case: 'queued', value: {} };
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

interface LockedReturn {
  readonly state: string;
  readonly processing: boolean;
  readonly hasOpenInstantRefund: boolean;
  /** Whether its exchange order was cancelled, or may have been, or is about to be. */
  readonly isBeingCancelled: boolean;
  /** The details of the last failed run; empty when there is none. */
  readonly previousDetails: AdditionalDetails;
}

const FACTS = `
select exists (
         select from instant_refunds where shop_id = $1 and return_id = $2 and state = 'open'
       ) as has_open_instant_refund,
       exists (
         select from processing_outcomes
          where shop_id = $1 and return_id = $2 and kind = 'order_cancel'
            and coalesce(done_at, asked_at) is not null
       ) or exists (
         select from processing_jobs where shop_id = $1 and return_id = $2 and state = 'cancelling'
       ) as is_being_cancelled,
       ${LAST_DETAILS} as previous_details`;

interface Facts {
  readonly has_open_instant_refund: boolean;
  readonly is_being_cancelled: boolean;
  readonly previous_details: string | null;
}

/** Locks in a separate statement, so that the second statement reads everything that was committed before the lock. */
async function lockReturn(
  tx: Queryable,
  of: { shopId: bigint; returnId: bigint },
): Promise<LockedReturn> {
  const locked = () =>
    tx.query<{ state: string; processing: boolean }>({
      name: 'processing-lock-return',
      text: 'select state, processing from returns where shop_id = $1 and id = $2 for update',
      values: [of.shopId, of.returnId],
    });
  const decided = () =>
    tx.query<Facts>({
      name: 'processing-facts',
      text: FACTS,
      values: [of.shopId, of.returnId],
    });
  const [{ rows }, facts] = await together(tx, () => allInOrder([locked(), decided()]));
  const [row] = rows;
  const [found] = facts.rows;
  if (!row || !found) throw returnNotFound();
  const { previous_details: previous } = found;
  return {
    ...row,
    hasOpenInstantRefund: found.has_open_instant_refund,
    isBeingCancelled: found.is_being_cancelled,
    previousDetails: previous === null ? {} : storedDetails(previous),
  };
}

function resultWithoutQueueing(current: LockedReturn): ProcessResult | undefined {
  if (current.state === 'review') {
    return refused(
      RefusalCode.UNPROCESSABLE_FLAGGED_RETURN,
      'The return is flagged: a user must review it before it can be processed.',
    );
  }
  if (current.state !== 'open') {
    return refused(
      RefusalCode.UNPROCESSABLE_RETURN,
      `The return is ${current.state} and cannot be processed.`,
    );
  }
  if (current.isBeingCancelled) {
    return refused(
      RefusalCode.UNPROCESSABLE_RETURN,
      'The exchange order of the return was cancelled, or may have been: cancel the return.',
    );
  }
  if (current.hasOpenInstantRefund) return { case: 'skippedInstantRefund', value: {} };
  if (current.processing) return { case: 'alreadyQueued', value: {} };
  return undefined;
}

function withoutProvider(): ProcessResult {
  const message = `The return cannot be processed: ${NO_PROVIDER}.`;
  return refused(RefusalCode.NO_COMMERCE_PROVIDER, message);
}

function refused(code: RefusalCode, message: string): ProcessResult {
  return { case: 'refused', value: { code, message } };
}
