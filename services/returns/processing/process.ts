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
import { returnNotFound } from '../refusals.ts';
import { detailText, parseDetails } from './details.ts';
import { queueJob, storedDetails } from './jobs.ts';
import { EVERY_SHOP, NO_PROVIDER } from './provider-gate.ts';

type Answer = NonNullable<MessageInitShape<typeof ProcessReturnResponseSchema>['result']>;

const input = z.object({
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  returnId: id,
  source: text(50),
});

/**
 * Queues a return for processing, or says why not, judged in this order under the return's row lock:
 * it exists, it is not flagged, it is not closed, cancelled or expired, no instant-refund credit is
 * open (answered, but nothing is done), it is not queued already (the details of this call are
 * dropped), and its shop has a commerce provider. `queued` means accepted, not done: `return.closed` or
 * `return.processing.failed` follow. Without details, those of the last run count, which failed. A repeat
 * with the same idempotency key is answered `queued` again.
 *
 * @throws DomainError NOT_FOUND for a return the shop does not have; INVALID_ARGUMENT for details
 *   beyond their limits.
 */
export async function processReturn(
  pool: pg.Pool,
  request: ProcessReturnRequest,
  gate = EVERY_SHOP,
): Promise<Answer> {
  const { shopId, returnId, source, actor } = parseInput(input, request);
  const given = parseDetails(request.details);
  const hasDetails = Object.keys(given).length > 0;
  const use = keyUseOf('ProcessReturn', ProcessReturnRequestSchema, request);

  return inTransaction(pool, async (tx) => {
    const standing = await lockStanding(tx, { shopId, returnId });
    // A call that queued nothing keeps no key: its repeat is judged again.
    if (use && (await findUse(tx, use)) !== undefined) return { case: 'queued', value: {} };
    const answer = answerWithoutQueueing(standing);
    if (answer) return answer;
    if (!(await gate.allows(tx, { shopId, returnId }))) return withoutProvider();
    const details = hasDetails ? given : standing.formerDetails;
    const job = { shopId, returnId, details, source, actor };
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
    text: source === '' ? 'Processing was asked for' : `Processing was asked for (${source})`,
    facts: Object.fromEntries(facts),
  };
}

interface Standing {
  readonly state: string;
  readonly processing: boolean;
  readonly hasOpenCredit: boolean;
  /** Of the newest run, which failed; none when there was none. */
  readonly formerDetails: AdditionalDetails;
}

const FACTS = `
select exists (
         select from instant_refunds where shop_id = $1 and return_id = $2 and state = 'open'
       ) as has_open_credit,
       (select details::text from processing_jobs
         where shop_id = $1 and return_id = $2 and state = 'failed'
         order by id desc limit 1) as former_details`;

/** Locks first: what a second statement reads is what was committed before the lock was granted. */
async function lockStanding(
  tx: Queryable,
  of: { shopId: bigint; returnId: bigint },
): Promise<Standing> {
  const locked = () =>
    tx.query<{ state: string; processing: boolean }>({
      name: 'processing-standing',
      text: 'select state, processing from returns where shop_id = $1 and id = $2 for update',
      values: [of.shopId, of.returnId],
    });
  const decided = () =>
    tx.query<{ has_open_credit: boolean; former_details: string | null }>({
      name: 'processing-facts',
      text: FACTS,
      values: [of.shopId, of.returnId],
    });
  const [{ rows }, facts] = await together(tx, () => allInOrder([locked(), decided()]));
  const [row] = rows;
  const [found] = facts.rows;
  if (!row || !found) throw returnNotFound();
  const { has_open_credit: hasOpenCredit, former_details: former } = found;
  return { ...row, hasOpenCredit, formerDetails: former === null ? {} : storedDetails(former) };
}

function answerWithoutQueueing(standing: Standing): Answer | undefined {
  if (standing.state === 'review') {
    return refused(
      RefusalCode.UNPROCESSABLE_FLAGGED_RETURN,
      'The return is flagged: a person must review it before it can be processed.',
    );
  }
  if (standing.state !== 'open') {
    return refused(
      RefusalCode.UNPROCESSABLE_RETURN,
      `The return is ${standing.state} and cannot be processed.`,
    );
  }
  if (standing.hasOpenCredit) return { case: 'skippedInstantRefund', value: {} };
  if (standing.processing) return { case: 'alreadyQueued', value: {} };
  return undefined;
}

function withoutProvider(): Answer {
  const message = `The return cannot be processed: ${NO_PROVIDER}.`;
  return refused(RefusalCode.NO_COMMERCE_PROVIDER, message);
}

function refused(code: RefusalCode, message: string): Answer {
  return { case: 'refused', value: { code, message } };
}
