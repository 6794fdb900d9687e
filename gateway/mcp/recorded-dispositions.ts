import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { DispositionRecord } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import {
  type DispositionOutcome,
  DispositionOutcomeSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  AssessBody,
  DispositionEntry,
} from '../../services/contract/resources/disposition.ts';
import { dispositionView } from '../../services/contract/views/disposition.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { readDefaultOutcome, readDispositions } from '../actions/dispositions.ts';
import { type EarlierOutcome, OutcomeUnknown, type ToolContext } from './tool.ts';

type Item = AssessBody['items'][number];

const OUTCOME = enumText(DispositionOutcomeSchema);
const WHAT_TO_READ = 'the lines with get_return';

/** Notes are cut to this length in the result; the assistant sent the note itself. Characters. */
export const NOTE_SHOWN = 1_000;

/** A recorded disposition as the tool returns it, with a long note cut. */
export function recordedView(record: DispositionRecord): DispositionEntry {
  const entry = dispositionView(record);
  return { ...entry, note: entry.note === null ? null : beginningOf(entry.note) };
}

function beginningOf(note: string): string {
  if (note.length <= NOTE_SHOWN) return note;
  // The cut may split a surrogate pair.
  return `${note.slice(0, NOTE_SHOWN).toWellFormed()}…`;
}

/**
 * Reconciles a call of record_dispositions. Dispositions are recorded all or none, so a line without one shows that
 * the call was not executed. If only some lines have a disposition, somebody else recorded those, and a repeat must
 * not replace them. If every line has exactly the disposition of the call, these are the result of the call.
 */
export async function reconcileDispositions(
  context: ToolContext,
  items: readonly Item[],
  since: Date,
): Promise<EarlierOutcome<{ items: DispositionEntry[] }>> {
  const lines = items.map(({ line_item_id }) => BigInt(line_item_id));
  const present = await readDispositions(context, lines);
  return async () => {
    const records = lines.flatMap((line) => present.get(line) ?? []);
    if (records.length === 0) return undefined;
    if (records.length < lines.length) throw new OutcomeUnknown(WHAT_TO_READ);
    const isOutcomeGiven = items.every(({ disposition_outcome }) => disposition_outcome);
    const usual = isOutcomeGiven ? undefined : await readDefaultOutcome(context);
    const isRecorded = items.every((item, at) => matches(records[at], item, { usual, since }));
    if (isRecorded) return { items: records.map(recordedView) };
    throw new OutcomeUnknown(WHAT_TO_READ);
  };
}

/**
 * Whether a record has the values of the call. Records do not contain images, so a call with images never matches.
 */
function matches(
  record: DispositionRecord | undefined,
  item: Item,
  o: { usual: DispositionOutcome | undefined; since: Date },
): boolean {
  const { disposition } = record ?? {};
  if (!disposition?.inspectedAt || (item.images?.length ?? 0) > 0) return false;
  const outcome = item.disposition_outcome ? OUTCOME.fromText(item.disposition_outcome) : o.usual;
  const at = timestampDate(disposition.inspectedAt).getTime();
  const isTime = item.inspected_at ? at === item.inspected_at.getTime() : at >= o.since.getTime();
  return (
    isTime &&
    disposition.outcome === outcome &&
    disposition.note === (item.note ?? undefined) &&
    disposition.returnProcessor === (item.return_processor ?? undefined)
  );
}
