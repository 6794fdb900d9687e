import type { MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import {
  type DetailValue,
  type ProcessReturnRequest,
  ProcessReturnRequestSchema,
  type ProcessReturnResponseSchema,
  ProcessReturnResponse_Refused_Code as RefusalCode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type AdditionalDetails, type DetailScalar, NO_PROVIDER } from '../../commerce/provider.ts';
import type { Providers } from '../../commerce/providers.ts';
import { PROCESS_DETAILS_BYTES_MAX, PROCESS_DETAILS_MAX } from '../../contract/limits.ts';
import { exactNumber, type NumberText, numberText } from '../../contract/validate/exact-json.ts';
import { allInOrder, ifNeeded } from '../../platform/postgres/all-in-order.ts';
import {
  committing,
  inTransaction,
  type Queryable,
  together,
} from '../../platform/postgres/postgres.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { claimKey, findUse, keyUseOf } from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  optionalIdempotencyKey,
  parseInput,
  text,
} from '../../platform/values/input.ts';
import { cleanText } from '../../platform/values/text.ts';
import {
  NOTHING_PAYABLE,
  NOTHING_PAYABLE_TEXT,
  PAYS_ARRIVED,
} from '../arrivals/paid-part-store.ts';
import { requireRevision, returnNotFound } from '../errors.ts';
import type { ReturnRef } from '../return.ts';
import { LAST_DETAILS, type QueuedJob, queueJob, storedDetails } from './jobs.ts';
import { NO_PLACES } from './worker.ts';

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
 * - something of it is to be paid, where its policy pays the goods that arrived;
 * - it has no open instant refund (`skippedInstantRefund`);
 * - it is not queued already (`alreadyQueued`: the details of this call are ignored);
 * - it has the expected revision: its amounts are those that the caller has read;
 * - its shop has a commerce provider.
 *
 * After `queued`, the run publishes `return.closed` or `return.processing.failed`. A call without details uses those of
 * the last failed run. A repeated call with the same idempotency key returns `queued` again.
 *
 * @param places where the job runs if there is a place.
 * @throws DomainError NOT_FOUND for a return that the shop does not have; INVALID_ARGUMENT, also for details beyond
 *   their limits; IDEMPOTENCY_CONFLICT; REVISION_CONFLICT.
 */
export async function processReturn(
  pool: pg.Pool,
  request: ProcessReturnRequest,
  providers: Providers,
  places = NO_PLACES,
): Promise<ProcessAnswer> {
  const { shopId, returnId, source, actor, expectedRevision } = parseInput(processInput, request);
  const requestDetails = parseDetails(request.details);
  const hasDetails = Object.keys(requestDetails).length > 0;
  // The repeat of a call whose answer was lost may have another revision.
  const content = { ...request, expectedRevision: 0n };
  const use = keyUseOf('ProcessReturn', ProcessReturnRequestSchema, content);

  const queue = async (tx: pg.PoolClient, mayLease: boolean): Promise<Queueing> => {
    const [current, provider] = await together(tx, () =>
      allInOrder([
        lockRuleInput(tx, { shopId, returnId }),
        ifNeeded(providers.of(tx, { shopId, returnId, isCheck: true })),
      ]),
    );
    // A call that queues nothing stores no key. So a repeat of it is checked again.
    const { missingLineItemIds, announced } = current;
    const also = { missingLineItemIds, announced };
    const queued = { result: { case: 'queued', value: {} }, ...also } as const;
    if (use && (await findUse(tx, use)) !== undefined) return { answer: queued };
    const result = resultWithoutQueueing(current);
    if (result) return { answer: { result, ...also } };
    if (expectedRevision !== 0n) requireRevision(current, expectedRevision);
    // The second look counts and logs the rejection.
    if (!provider() && !(await providers.of(tx, { shopId, returnId }))) {
      return { answer: { result: withoutProvider(), ...also } };
    }
    const details = hasDetails ? requestDetails : current.previousDetails;
    const job = { shopId, returnId, details, source, actor, isCancellation: false };
    await claimKey(tx, use, returnId);
    const entry = queuedEntry(request, details);
    const made = await committing(tx, () => queueJob(tx, job, entry, { mayLease }));
    return { answer: queued, queued: made };
  };
  const { answer } = await places.queueing((mayLease) =>
    inTransaction(pool, (tx) => queue(tx, mayLease)),
  );
  return answer;
}

interface Queueing {
  readonly answer: ProcessAnswer;
  /** Absent when nothing was queued. */
  readonly queued?: QueuedJob;
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

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/**
 * Parses the additional details in a process request: at most 50 keys and 16 KiB. Each value is a text, number, boolean
 * or null.
 *
 * @throws DomainError INVALID_ARGUMENT with the name of the invalid key.
 */
function parseDetails(details: Readonly<Record<string, DetailValue>>): AdditionalDetails {
  const entries = Object.entries(details);
  if (entries.length > PROCESS_DETAILS_MAX)
    throw invalidField('details', `must have at most ${PROCESS_DETAILS_MAX} keys`);
  const bytes = entries.reduce((sum, [key, value]) => sum + size(key) + size(textOf(value)), 0);
  if (bytes > PROCESS_DETAILS_BYTES_MAX)
    throw invalidField('details', `must have at most ${PROCESS_DETAILS_BYTES_MAX} bytes`);
  return Object.fromEntries(entries.map(([key, value]) => [checkText(key), scalarOf(key, value)]));
}

/** Returns a value as a text for a timeline entry. */
function detailText(value: DetailScalar): string {
  if (value === null || typeof value !== 'object') return String(value);
  return numberText(value);
}

function scalarOf(key: string, { value }: DetailValue): DetailScalar {
  switch (value.case) {
    case undefined:
      return null;
    case 'text':
      return checkText(value.value);
    case 'truth':
      return value.value;
    case 'number':
      return numberOf(key, value.value);
    default:
      return value satisfies never;
  }
}

function numberOf(key: string, text: string): number | NumberText {
  if (JSON_NUMBER.test(text) && Number.isFinite(Number(text))) return exactNumber(text);
  throw invalidField(`details[${JSON.stringify(key)}]`, 'must be a JSON number');
}

/** Checks that PostgreSQL can store the text: it has no NUL, and no half of a surrogate pair. */
function checkText(text: string): string {
  if (cleanText(text)) return text;
  throw invalidField('details', 'must not contain NUL or a lone surrogate');
}

function textOf({ value }: DetailValue): string {
  return value.case === undefined ? 'null' : String(value.value);
}

function size(text: string): number {
  return Buffer.byteLength(text);
}

// The rule that says whether a return is processed. Processing uses it, and so does the check that people see before.

type ProcessResult = NonNullable<MessageInitShape<typeof ProcessReturnResponseSchema>['result']>;

type Announced = NonNullable<MessageInitShape<typeof ProcessReturnResponseSchema>['announced']>;

/** The result, the line items whose goods did not come, and what the return announces. */
interface ProcessAnswer {
  readonly result: ProcessResult;
  readonly missingLineItemIds: bigint[];
  readonly announced: Announced;
}

/** The values of a return on which the rule depends. The rule also depends on the commerce provider of the shop. */
export interface RuleInput {
  readonly state: string;
  readonly processing: boolean;
  readonly revision: bigint;
  /** Whether processing, or a cancellation of the order, was queued before. */
  readonly wasQueued: boolean;
  readonly hasOpenInstantRefund: boolean;
  /** Whether the exchange order was cancelled, may have been cancelled, or will be. */
  readonly isBeingCancelled: boolean;
  /** Whether the policy pays the goods that arrived, and none has. */
  readonly isNothingPayable: boolean;
  /** The additional details of the last failed run; empty when there is none. */
  readonly previousDetails: AdditionalDetails;
  /** The line items that are disposed as missing, in the order of the return. */
  readonly missingLineItemIds: bigint[];
  readonly announced: Announced;
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
         select from returns where shop_id = $1 and id = $2 and processing
       ) and exists (
         select from processing_jobs where shop_id = $1 and return_id = $2 and state = 'cancelling'
       ) as is_being_cancelled,
       exists (
         select from returns r where r.shop_id = $1 and r.id = $2 and ${PAYS_ARRIVED} and ${NOTHING_PAYABLE}
       ) as is_nothing_payable,
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
  readonly is_nothing_payable: boolean;
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

const RETURN = `
select state, processing, revision, queued_at is not null as "wasQueued",
       order_name as "orderName", currency, refund, return_credit as "returnCredit"
  from returns where shop_id = $1 and id = $2`;

type Row = Pick<RuleInput, 'state' | 'processing' | 'revision' | 'wasQueued'> &
  Record<'orderName' | 'currency' | 'refund' | 'returnCredit', string>;

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
  const { orderName, currency, refund, returnCredit, ...state } = row;
  return {
    ...state,
    announced: { orderName, currency, refund, returnCredit },
    hasOpenInstantRefund: found.has_open_instant_refund,
    isBeingCancelled: found.is_being_cancelled,
    isNothingPayable: found.is_nothing_payable,
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
  if (current.isNothingPayable) {
    return refused(
      RefusalCode.UNPROCESSABLE_RETURN,
      `The return cannot be processed: ${NOTHING_PAYABLE_TEXT}.`,
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
