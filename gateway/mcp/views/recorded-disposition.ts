import type { DispositionRecord } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import type { DispositionEntry } from '../../../services/contract/resources/disposition.ts';
import { dispositionView } from '../../../services/contract/views/disposition.ts';

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
