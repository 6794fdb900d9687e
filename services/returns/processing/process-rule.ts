import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type ProcessReturnResponseSchema,
  ProcessReturnResponse_Refused_Code as RefusalCode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { type Queryable, together } from '../../platform/postgres.ts';
import { type AdditionalDetails, NO_PROVIDER } from '../commerce/provider.ts';
import { returnNotFound } from '../errors.ts';
import type { ReturnRef } from '../return-ref.ts';
import { LAST_DETAILS, storedDetails } from './jobs.ts';

// The rule that says whether a return is processed. Processing uses it, and so does the check that people see before.

export type ProcessResult = NonNullable<
  MessageInitShape<typeof ProcessReturnResponseSchema>['result']
>;

/** The result, and the line items whose goods did not come. */
export interface ProcessAnswer {
  readonly result: ProcessResult;
  readonly missingLineItemIds: bigint[];
}

/** The values of a return on which the rule depends. The rule also depends on the commerce provider of the shop. */
export interface RuleInput {
  readonly state: string;
  readonly processing: boolean;
  readonly revision: bigint;
  readonly hasOpenInstantRefund: boolean;
  /** Whether the exchange order was cancelled, may have been cancelled, or will be. */
  readonly isBeingCancelled: boolean;
  /** The additional details of the last failed run; empty when there is none. */
  readonly previousDetails: AdditionalDetails;
  /** The line items that are disposed as missing, in the order of the return. */
  readonly missingLineItemIds: bigint[];
}

const STORED_INPUT = `
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
       ${LAST_DETAILS} as previous_details,
       array(
         select l.id from return_lines l
           join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
          where l.shop_id = $1 and l.return_id = $2 and l.removed_at is null and d.outcome = 'missing'
          order by l.position
       ) as missing_line_item_ids`;

interface InputRow {
  readonly has_open_instant_refund: boolean;
  readonly is_being_cancelled: boolean;
  readonly previous_details: string | null;
  readonly missing_line_item_ids: bigint[];
}

/**
 * Locks the return, and reads the input of the rule. The lock is a separate statement, so that the second statement
 * sees everything that was committed before the lock.
 *
 * @throws DomainError NOT_FOUND.
 */
export async function lockRuleInput(tx: Queryable, ofReturn: ReturnRef): Promise<RuleInput> {
  const locked = () =>
    tx.query<Row>({
      name: 'processing-lock-return',
      text: `${RETURN} for update`,
      values: [ofReturn.shopId, ofReturn.returnId],
    });
  const [{ rows }, stored] = await together(tx, () =>
    allInOrder([locked(), readStoredInput(tx, ofReturn)]),
  );
  return ruleInputIn(rows, stored.rows);
}

/** Reads the input of the rule without a lock, so that it may have changed already. @throws DomainError NOT_FOUND. */
export async function currentRuleInput(db: Queryable, ofReturn: ReturnRef): Promise<RuleInput> {
  const { rows } = await db.query<Row>(RETURN, [ofReturn.shopId, ofReturn.returnId]);
  return ruleInputIn(rows, (await readStoredInput(db, ofReturn)).rows);
}

const RETURN = 'select state, processing, revision from returns where shop_id = $1 and id = $2';

type Row = Pick<RuleInput, 'state' | 'processing' | 'revision'>;

function readStoredInput(db: Queryable, of: ReturnRef) {
  return db.query<InputRow>({
    name: 'processing-rule-input',
    text: STORED_INPUT,
    values: [of.shopId, of.returnId],
  });
}

function ruleInputIn([row]: readonly Row[], [found]: readonly InputRow[]): RuleInput {
  if (!row || !found) throw returnNotFound();
  const { previous_details: previous } = found;
  return {
    ...row,
    hasOpenInstantRefund: found.has_open_instant_refund,
    isBeingCancelled: found.is_being_cancelled,
    previousDetails: previous === null ? {} : storedDetails(previous),
    missingLineItemIds: found.missing_line_item_ids,
  };
}

/**
 * Returns why a return is not queued, by its own state. Undefined when it is queued. The order of the reasons is that
 * of `processReturn`.
 */
export function resultWithoutQueueing(current: RuleInput): ProcessResult | undefined {
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

/** Returns the result for a return whose shop has no commerce provider. */
export function withoutProvider(): ProcessResult {
  const message = `The return cannot be processed: ${NO_PROVIDER}.`;
  return refused(RefusalCode.NO_COMMERCE_PROVIDER, message);
}

/** A rejection. REST sends it with status 200: `processBodyOf` in `gateway/rest/handlers.ts`. */
function refused(code: RefusalCode, message: string): ProcessResult {
  return { case: 'refused', value: { code, message } };
}
