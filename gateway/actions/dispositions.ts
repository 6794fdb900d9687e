import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { DispositionRecord } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import {
  DispositionOutcome,
  DispositionOutcomeSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { AssessBody } from '../../services/contract/resources/disposition.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

const OUTCOME = enumText(DispositionOutcomeSchema);

/** Thirty full notes take their time through two services. Milliseconds. */
const TIMEOUT_MS = 20_000;

/** Records what becomes of 1 to 30 lines, all or none; answers in the order of the request. */
export async function assessDispositions(
  context: ActionContext,
  body: AssessBody,
): Promise<DispositionRecord[]> {
  // Notes are of megabytes, and those of the request are known here.
  const items = body.items.map(inputOf);
  const request = { ...callerOf(context), items, withoutNotes: true };
  const answer = await context.services.dispositions.assess(request, { timeoutMs: TIMEOUT_MS });
  const sentItems = new Map(items.map((item) => [item.lineItemId, item]));
  return answer.items.map((record) => withNote(record, sentItems.get(record.lineItemId)?.note));
}

function withNote(record: DispositionRecord, note: string | undefined): DispositionRecord {
  if (!record.disposition || note === undefined) return record;
  return { ...record, disposition: { ...record.disposition, note } };
}

/** The present disposition of each line that has one, by line. */
export async function readDispositions(
  context: ActionContext,
  lineItemIds: readonly bigint[],
): Promise<ReadonlyMap<bigint, DispositionRecord>> {
  const request = { ...callerOf(context), lineItemIds: [...lineItemIds] };
  const { items } = await context.services.dispositions.getDispositions(request);
  return new Map(items.map((record) => [record.lineItemId, record]));
}

/** What becomes of a line when an assessment does not say it. */
export async function readDefaultOutcome(context: ActionContext): Promise<DispositionOutcome> {
  const answer = await context.services.dispositions.getSettings(callerOf(context));
  return sent(answer.settings, 'settings').defaultOutcome;
}

function inputOf(item: AssessBody['items'][number]) {
  const { disposition_outcome, return_processor, note, inspected_at, images } = item;
  return {
    lineItemId: BigInt(item.line_item_id),
    outcome: disposition_outcome
      ? OUTCOME.fromText(disposition_outcome)
      : DispositionOutcome.UNSPECIFIED,
    ...(typeof return_processor === 'string' && { returnProcessor: return_processor }),
    ...(typeof note === 'string' && { note }),
    ...(inspected_at && { inspectedAt: timestampFromDate(inspected_at) }),
    images: images ?? [],
  };
}
