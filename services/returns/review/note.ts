import type pg from 'pg';
import { z } from 'zod';
import {
  type AddNoteRequest,
  AddNoteRequestSchema,
  type TimelineEntry,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { NOTE_MAX } from '../../contract/limits.ts';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import { keyUseOf, oncePerKey } from '../../platform/values/idempotency.ts';
import {
  callerShape,
  id,
  optionalIdempotencyKey,
  parseInput,
  requiredText,
  text,
} from '../../platform/values/input.ts';
import { readEntry, requireReturn } from '../queries/timeline.ts';
import { addTimeline } from '../store/timeline-store.ts';

const note = z.object({
  ...callerShape,
  returnId: id,
  text: requiredText(NOTE_MAX),
  author: text(200),
  idempotencyKey: optionalIdempotencyKey,
});
type Note = z.output<typeof note>;

/**
 * Writes a note into the timeline of a return in any state. The details do not change. A repeated call with the same
 * key and content returns the note of the first call.
 *
 * @throws DomainError INVALID_ARGUMENT; RETURN_NOT_FOUND; IDEMPOTENCY_CONFLICT.
 */
export async function addNote(pool: pg.Pool, request: AddNoteRequest): Promise<TimelineEntry> {
  const input = parseInput(note, request);
  const use = keyUseOf('AddNote', AddNoteRequestSchema, request);
  return inTransaction(pool, async (tx) => {
    await requireReturn(tx, input);
    const { id: entryId } = await oncePerKey(tx, use, () => writeNote(tx, input));
    return readEntry(tx, { ...input, entryId });
  });
}

async function writeNote(tx: Queryable, input: Note): Promise<bigint> {
  const { returnId, text: words, author, actor } = input;
  const entry = { returnId, kind: 'note', text: words, author: author || actor.name };
  const [entryId] = await addTimeline(tx, input, [entry]);
  if (entryId === undefined) throw new Error('a note was not stored');
  return entryId;
}
