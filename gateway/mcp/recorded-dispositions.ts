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
import { OutcomeUnknown, type ToolContext, type Verdict } from './tool.ts';

type Item = AssessBody['items'][number];

const OUTCOME = enumText(DispositionOutcomeSchema);
const WHERE_TO_LOOK = 'the lines with get_return';

/** Characters of a note that an assistant is answered: it has sent the note itself. */
export const NOTE_SHOWN = 1_000;

/** A recorded disposition as an assistant is answered it: the beginning of a long note is enough. */
export function recordedView(record: DispositionRecord): DispositionEntry {
  const entry = dispositionView(record);
  return { ...entry, note: entry.note === null ? null : beginningOf(entry.note) };
}

function beginningOf(note: string): string {
  if (note.length <= NOTE_SHOWN) return note;
  // The cut may be inside of a pair of surrogates.
  return `${note.slice(0, NOTE_SHOWN).toWellFormed()}…`;
}

/**
 * Judges a call that was to record dispositions. They are recorded all or none, so one line that has none
 * says that nothing was done; but what the others have somebody recorded, and it is not to be replaced.
 * What every line has is the answer where it is just what was to be recorded.
 */
export async function lookAtDispositions(
  context: ToolContext,
  items: readonly Item[],
  since: Date,
): Promise<Verdict<{ items: DispositionEntry[] }>> {
  const lines = items.map(({ line_item_id }) => BigInt(line_item_id));
  const present = await readDispositions(context, lines);
  return async () => {
    const records = lines.flatMap((line) => present.get(line) ?? []);
    if (records.length === 0) return undefined;
    if (records.length < lines.length) throw new OutcomeUnknown(WHERE_TO_LOOK);
    const isOutcomeSaid = items.every(({ disposition_outcome }) => disposition_outcome);
    const usual = isOutcomeSaid ? undefined : await readDefaultOutcome(context);
    const isRecorded = items.every((item, at) => says(records[at], item, { usual, since }));
    if (isRecorded) return { items: records.map(recordedView) };
    throw new OutcomeUnknown(WHERE_TO_LOOK);
  };
}

/** Whether a record says what was to be recorded. It does not show images: what had some is never sure. */
function says(
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
