import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { trace } from '@opentelemetry/api';
import DataLoader from 'dataloader';
import type { Effect } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Label,
  LabelStatusSchema,
  type Return,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  ProcessReturnResponse_Announced as Announced,
  DetailValueSchema,
  GiftCard,
  ProcessReturnResponse,
  SummarizeResponse,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { DetailsSelector } from '../../services/contract/resources/details-query.ts';
import type { GiftCardBody } from '../../services/contract/resources/gift-card.ts';
import type { LabelBody, LabelUpdateBody } from '../../services/contract/resources/label.ts';
import type { ProcessBody } from '../../services/contract/resources/process.ts';
import { numberText } from '../../services/contract/validate/exact-json.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { createShopPermits } from '../../services/platform/process/permits.ts';
import { currentCaller, withoutCaller } from '../../services/platform/rpc/caller.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { isUnavailable, reasonOf } from '../../services/platform/values/errors.ts';
import type { Services } from '../services.ts';
import { changesOf } from '../tenancy/field-change.ts';
import { type ActionContext, callerOf, type Reader, type ReadReturn, sent } from './context.ts';

/**
 * Finds a return by its id, its order's id or its order's name. If there are several, returns the newest. Rejects with
 * RETURN_NOT_FOUND when there is none that the caller reaches.
 */
export async function findReturn(
  context: ActionContext,
  selector: DetailsSelector,
): Promise<Return> {
  const submitter = context.access?.onlyOf;
  const reader = { ...callerOf(context), ...(submitter && { submitter }) };
  const found = await context.readReturn(reader, selector);
  context.access?.requireReach(found);
  return found;
}

export type ProcessResult = ProcessReturnResponse['result'];

/**
 * Queues a return for processing. When the service rejects the return, this function returns the reason and does not
 * throw.
 *
 * @param o.source the kind of caller: `warehouse` (`rest/handlers.ts`), `api` (`mcp/tools/change-returns.ts`). The portal
 *   sends `admin` (`portal/methods.ts`), and a caller of gRPC its own text.
 */
export async function processReturn(
  context: ActionContext,
  o: {
    readonly returnId: bigint;
    readonly details: ProcessBody;
    readonly source: 'warehouse' | 'api';
    readonly idempotencyKey?: string;
  },
): Promise<ProcessReturnResponse> {
  const response = await context.services.returns.processReturn({
    ...callerOf(context),
    returnId: o.returnId,
    details: Object.fromEntries(
      Object.entries(o.details).map(([key, value]) => [key, detailOf(value)]),
    ),
    source: o.source,
    idempotencyKey: o.idempotencyKey ?? '',
  });
  noteMoney(context, response.announced);
  return response;
}

/** Notes the order of a return and the amounts that it announces, for the audit log. */
export function noteMoney(
  { noteChanges }: ActionContext,
  of: Pick<Announced, 'orderName' | 'currency' | 'refund' | 'returnCredit'> | undefined,
): void {
  if (!of) return;
  const amount = (value: string) => (Number(value) > 0 ? `${value} ${of.currency}` : '');
  noteChanges?.(
    changesOf({
      order: ['', of.orderName],
      refund: ['', amount(of.refund)],
      return_credit: ['', amount(of.returnCredit)],
    }),
  );
}

function detailOf(value: ProcessBody[string]): MessageInitShape<typeof DetailValueSchema> {
  if (typeof value === 'string') return { value: { case: 'text', value } };
  if (typeof value === 'boolean') return { value: { case: 'truth', value } };
  if (value === null) return { value: { case: undefined } };
  return { value: { case: 'number', value: numberText(value) } };
}

/**
 * Returns the effects that processing requested of the commerce provider for a return. Rejects with NOT_FOUND when the
 * shop has no such return.
 */
export async function listEffects(context: ActionContext, returnId: bigint): Promise<Effect[]> {
  const call = { ...callerOf(context), returnId };
  return (await context.services.commerce.listEffects(call)).effects;
}

/** Counts the returns created from one time (inclusive) until another (exclusive). Archived returns count. */
export function summarizeReturns(
  context: ActionContext,
  period: { from: Date; to: Date },
): Promise<SummarizeResponse> {
  return context.services.returns.summarize({
    ...callerOf(context),
    createdFrom: timestampFromDate(period.from),
    createdTo: timestampFromDate(period.to),
  });
}

type Returns = Pick<Services['returns'], 'findReturn' | 'findReturns'>;

/** Maximum number of selectors of FindReturns. */
const MAX_BATCH = 32;
/** Deadline of a read, for the batch and the single read together. Milliseconds. */
const DEADLINE_MS = deadline(5_000);

/** A return above this size is read with a permit. The size is that of its line items and uploads as JSON. Bytes. */
const SMALL_BYTES = 1024 * 1024;
/**
 * Permits for large returns. A large return needs several times its size in memory, in the gateway and in the returns
 * service.
 */
const LARGE = { size: 2, maxWaiting: 16, waitMs: 4_000, perShop: { size: 1, maxWaiting: 8 } };
/** Deadline of the read of a large return, from the time when it gets its permit. Milliseconds. */
const LARGE_DEADLINE_MS = deadline(10_000);

/** The reads of one shop and actor in one turn of the event loop. They are sent at its end. */
interface Batch {
  readonly loader: DataLoader<DetailsSelector, Return | undefined>;
  /** Id of the trace of the first read in the batch. */
  readonly traceId: string;
}

/**
 * Creates a reader that collects the reads of one turn of the event loop, and sends those of the same shop and actor as
 * one batch.
 *
 * The reads of a busy caller share the cost of one call and one statement. Nothing waits longer than the turn, and
 * nothing is cached. The batch belongs to the trace of its first read. The spans of its other reads have the id of this
 * trace in `batch.trace_id`.
 *
 * The response to a batch lacks returns that do not exist or are too large. The response to a batch that fails lacks
 * all returns. The reader then reads each missing return alone in the remaining time, so that no read fails because of
 * another one. A large return first needs a permit. When the service is unavailable, all reads of the batch fail,
 * because 32 single calls would only increase the load. A timeout counts as unavailable, because the service bounds the
 * work of a batch.
 */
export function createReturnReader(returns: Returns): ReadReturn {
  const batches = new Map<string, Batch>();
  const large = createShopPermits(LARGE);

  const batchOf = (reader: Reader): Batch => {
    const key = `${reader.shopId}:${reader.actor.kind}:${reader.actor.id}`;
    const span = trace.getActiveSpan();
    const open = batches.get(key);
    if (open) {
      span?.setAttribute('batch.trace_id', open.traceId);
      return open;
    }
    const readBatch = (selectors: readonly DetailsSelector[]) => {
      batches.delete(key);
      // A caller that disconnects must not cancel the batch, because it has reads of other callers.
      return withoutCaller(() => readTogether(returns, reader, selectors));
    };
    const loader = new DataLoader<DetailsSelector, Return | undefined>(readBatch, {
      cache: false,
      maxBatchSize: MAX_BATCH,
      batchScheduleFn: (dispatch) => void setImmediate(dispatch),
    });
    const opened = { loader, traceId: span?.spanContext().traceId ?? '' };
    batches.set(key, opened);
    return opened;
  };

  return async (reader, selector) => {
    const startedAt = performance.now();
    const found = reader.submitter ? undefined : await batchOf(reader).loader.load(selector);
    if (found) return found;
    const timeoutMs = Math.max(1, DEADLINE_MS - (performance.now() - startedAt));
    const request = { ...reader, selector };
    try {
      const small = await returns.findReturn({ ...request, maxBytes: SMALL_BYTES }, { timeoutMs });
      return sent(small.return, 'return');
    } catch (error) {
      if (reasonOf(error) !== ErrorReason.ANSWER_TOO_LARGE) throw error;
    }
    await large.takeUntil(reader.shopId, currentCaller());
    const whole = await returns.findReturn(request, { timeoutMs: LARGE_DEADLINE_MS });
    return sent(whole.return, 'return');
  };
}

/**
 * Reads a batch. Returns one entry for each selector: the return, or undefined when it must be read alone. Rejects when
 * the service is unavailable.
 */
async function readTogether(
  returns: Returns,
  reader: Reader,
  selectors: readonly DetailsSelector[],
): Promise<(Return | undefined)[]> {
  const results = new Array<Return | undefined>(selectors.length).fill(undefined);
  if (selectors.length === 1) return results;
  const request = { ...reader, selectors: selectors.map((selector) => ({ selector })) };
  try {
    const { found } = await returns.findReturns(request, { timeoutMs: DEADLINE_MS });
    for (const { positions, return: ret } of found) {
      for (const position of positions) results[position] = ret;
    }
  } catch (error) {
    if (isUnavailable(error)) throw error;
  }
  return results;
}

const STATUS = enumText(LabelStatusSchema);

/**
 * Adds a label to a return and fulfils its open label request.
 *
 * @param o.key idempotency key of at most 200 characters; a repeat with the same key returns the first label.
 */
export async function recordLabel(
  context: ActionContext,
  body: LabelBody,
  o: { readonly returnId: bigint; readonly key: string },
): Promise<Label> {
  const { label } = await context.services.returns.recordLabel({
    ...callerOf(context),
    returnId: o.returnId,
    idempotencyKey: o.key,
    carrier: body.carrier,
    trackingNumber: body.tracking_number ?? '',
    url: body.url ?? '',
    rate: body.rate ?? '',
    lineItemIds: (body.line_item_ids ?? []).map(BigInt),
    ...(body.created_at && { createdAt: timestampFromDate(body.created_at) }),
  });
  return sent(label, 'label');
}

/**
 * Records a carrier update and returns the current label. The service ignores an update that is older than the last
 * one; this function returns the label then, too.
 */
export async function updateLabel(
  context: ActionContext,
  labelId: bigint,
  body: LabelUpdateBody,
): Promise<Label> {
  const { label } = await context.services.returns.updateLabel({
    ...callerOf(context),
    labelId,
    status: STATUS.fromText(body.status),
    occurredAt: timestampFromDate(body.occurred_at),
    trackingNumber: body.tracking_number ?? '',
  });
  return sent(label, 'label');
}

/**
 * Records the gift card that was issued for a return.
 *
 * @param o.key idempotency key of at most 200 characters; a repeat with the same key returns the first card.
 */
export async function recordGiftCard(
  context: ActionContext,
  body: GiftCardBody,
  o: { readonly returnId: bigint; readonly key: string },
): Promise<GiftCard> {
  const { giftCard } = await context.services.returns.recordGiftCard({
    ...callerOf(context),
    returnId: o.returnId,
    idempotencyKey: o.key,
    providerOrderId: BigInt(body.order_id),
    name: body.order_name ?? '',
    amount: body.amount,
    currency: body.currency,
    ...(body.issued_at && { issuedAt: timestampFromDate(body.issued_at) }),
  });
  return sent(giftCard, 'gift card');
}
