import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Effect } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  CheckReturnResponse,
  DetailValueSchema,
  ProcessReturnResponse,
  SummarizeResponse,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { numberText } from '../../services/contract/exact-json.ts';
import type { DetailsSelector } from '../../services/contract/resources/details-query.ts';
import type { ProcessBody } from '../../services/contract/resources/process.ts';
import { type ActionContext, callerOf } from './context.ts';

/** Finds a return by its id, its order's id or its order's name. If there are several, returns the newest. */
export function findReturn(context: ActionContext, selector: DetailsSelector): Promise<Return> {
  return context.readReturn(callerOf(context), selector);
}

/** Returns what processing and what cancelling the return would do now. Changes nothing. */
export function checkReturn(
  context: ActionContext,
  returnId: bigint,
): Promise<CheckReturnResponse> {
  return context.services.returns.checkReturn({ ...callerOf(context), returnId });
}

export type ProcessResult = ProcessReturnResponse['result'];

/**
 * Queues a return for processing. When the service rejects the return, this function returns the reason and does not
 * throw.
 *
 * @param o.source the kind of caller: `warehouse` (`rest/handlers.ts`), `admin` (`portal/services/return-changes.ts`),
 *   `api` (`mcp/tools/process-return.ts`). A caller of gRPC sends its own text.
 */
export function processReturn(
  context: ActionContext,
  o: {
    readonly returnId: bigint;
    readonly details: ProcessBody;
    readonly source: 'warehouse' | 'admin' | 'api';
    readonly idempotencyKey?: string;
    readonly expectedRevision?: bigint;
  },
): Promise<ProcessReturnResponse> {
  return context.services.returns.processReturn({
    ...callerOf(context),
    returnId: o.returnId,
    details: Object.fromEntries(
      Object.entries(o.details).map(([key, value]) => [key, detailOf(value)]),
    ),
    source: o.source,
    idempotencyKey: o.idempotencyKey ?? '',
    expectedRevision: o.expectedRevision ?? 0n,
  });
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
