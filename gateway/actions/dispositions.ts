import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type {
  ConditionRecord,
  DispositionRecord,
} from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import {
  DispositionOutcome,
  DispositionOutcomeSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { AssessBody, GradeBody } from '../../services/contract/resources/inspection.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { type ActionContext, callerOf } from './context.ts';

const OUTCOME = enumText(DispositionOutcomeSchema);

/**
 * Deadline of a call. Longer than for other calls, because thirty notes of full length pass through two services.
 * Milliseconds.
 */
export const INSPECTION_TIMEOUT_MS = deadline(20_000);

/** Records the dispositions of 1 to 30 line items, all or none. Returns them in the order of the request. */
export async function assessDispositions(
  context: ActionContext,
  body: AssessBody,
  idempotencyKey = '',
): Promise<DispositionRecord[]> {
  const items = body.items.map(inputOf);
  // Notes may have megabytes, so they are copied from the request. A repeat with a key may show a later assessment with
  // another note, so then the service returns the notes.
  const request = { ...callerOf(context), items, withoutNotes: true, idempotencyKey };
  const recorded = await context.services.dispositions.assess(request, {
    timeoutMs: INSPECTION_TIMEOUT_MS,
  });
  if (recorded.hasNotes) return recorded.items;
  const itemsById = new Map(items.map((item) => [item.lineItemId, item]));
  return recorded.items.map((record) => withNote(record, itemsById.get(record.lineItemId)?.note));
}

/** Maximum number of line items that a sentence names. */
const NAMED_LINES = 10;

/**
 * Says that processing pays for goods that did not come, in ASCII without a period. Undefined when none are missing.
 *
 * @param missing the line items that are disposed as missing.
 */
export function missingGoods(missing: readonly bigint[]): string | undefined {
  if (missing.length === 0) return undefined;
  const more = missing.length - NAMED_LINES;
  const named = missing.slice(0, NAMED_LINES).join(', ') + (more > 0 ? ` and ${more} more` : '');
  return `${missing.length > 1 ? `line items ${named} are` : `line item ${named} is`} recorded as missing, but processing pays for the whole return: if it must not, put the return into review or take what is missing out of it before it is processed`;
}

/** The line items that are disposed as missing. */
export function missingIn(recorded: readonly DispositionRecord[]): bigint[] {
  return recorded
    .filter(({ disposition }) => disposition?.outcome === DispositionOutcome.MISSING)
    .map(({ lineItemId }) => lineItemId);
}

/** Records the condition of 1 to 30 line items, all or none. Returns them in the order of the request. */
export async function gradeItems(
  context: ActionContext,
  body: GradeBody,
  idempotencyKey = '',
): Promise<ConditionRecord[]> {
  const items = body.items.map((item) => ({
    ...findingOf(item),
    category: item.category,
    subject: item.subject ?? '',
    title: item.title ?? '',
    description: item.description ?? '',
    ...(typeof item.category_parent === 'string' && { categoryParent: item.category_parent }),
  }));
  const request = { ...callerOf(context), items, idempotencyKey };
  return (
    await context.services.dispositions.gradeItems(request, { timeoutMs: INSPECTION_TIMEOUT_MS })
  ).items;
}

function withNote(record: DispositionRecord, note: string | undefined): DispositionRecord {
  if (!record.disposition || note === undefined) return record;
  return { ...record, disposition: { ...record.disposition, note } };
}

function inputOf(item: AssessBody['items'][number]) {
  const { disposition_outcome, quantity } = item;
  return {
    ...findingOf(item),
    ...(typeof quantity === 'number' && { quantity }),
    outcome: disposition_outcome
      ? OUTCOME.fromText(disposition_outcome)
      : DispositionOutcome.UNSPECIFIED,
  };
}

/** The fields that assessments and gradings have in common. */
function findingOf(item: AssessBody['items'][number] | GradeBody['items'][number]) {
  const { return_processor, note, inspected_at, images } = item;
  return {
    lineItemId: BigInt(item.line_item_id),
    ...(typeof return_processor === 'string' && { returnProcessor: return_processor }),
    ...(typeof note === 'string' && { note }),
    ...(inspected_at && { inspectedAt: timestampFromDate(inspected_at) }),
    images: images ?? [],
  };
}
