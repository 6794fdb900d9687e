import { z } from 'zod';
import type { DispositionRecord } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import {
  DISPOSITION_ITEMS_MAX,
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
} from '../../../services/contract/limits.ts';
import {
  type DispositionEntry,
  disposition,
} from '../../../services/contract/resources/disposition.ts';
import { choice, id, text, typed } from '../../../services/contract/resources/fields.ts';
import { dispositionView } from '../../../services/contract/views/disposition.ts';
import { DISPOSITION_OUTCOMES } from '../../../services/contract/vocabulary.ts';
import { assessDispositions, missingGoods, missingIn } from '../../actions/dispositions.ts';
import { idempotencyKey, time, UNTRUSTED } from '../fields.ts';
import { described } from '../result-schema.ts';
import { defineTool, ToolError } from '../tool.ts';

/**
 * Maximum length of a note in the result. A longer note is cut, because the assistant already has it: it sent the note.
 * Characters.
 */
const NOTE_SHOWN = 1_000;

const dispositionInput = z.strictObject(
  {
    line_item_id: id().describe('get_return returns it'),
    disposition_outcome: choice(DISPOSITION_OUTCOMES)
      .optional()
      .describe("When absent, the line's outcome so far or the shop's default"),
    return_processor: text({ max: RETURN_PROCESSOR_MAX })
      .optional()
      .describe('Contact address of the warehouse partner'),
    note: text({ max: NOTE_MAX }).optional(),
    inspected_at: time('Now when absent').optional(),
    images: z
      .array(text({ max: IMAGE_MAX }))
      .max(IMAGES_PER_ITEM_MAX, { error: `must have at most ${IMAGES_PER_ITEM_MAX} entries` })
      .optional()
      .describe('Links to images; the service never fetches them'),
  },
  { error: typed('an object') },
);

export const recordDispositions = defineTool({
  name: 'record_dispositions',
  title: 'Record dispositions',
  description:
    'Use this when the warehouse has inspected returned items and decided where each goes. One call records 1 to 30 lines, all or none. A later disposition replaces the previous one, which stays in the timeline. It does not process the return.',
  hints: {
    readOnly: { is: false, because: 'It records the dispositions of lines.' },
    destructive: { is: true, because: "It replaces a line's previous disposition." },
    idempotent: {
      is: false,
      because: 'Without inspected_at, a repeat records a new inspection time.',
    },
    openWorld: { is: false, because: 'It changes records of this service.' },
  },
  input: z.strictObject({
    items: z
      .array(dispositionInput, { error: typed('a list') })
      .min(1, { error: 'must have at least 1 entry' })
      .max(DISPOSITION_ITEMS_MAX, { error: `must have at most ${DISPOSITION_ITEMS_MAX} entries` }),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({
    items: z
      .array(
        described(
          `As recorded; notes are cut after ${NOTE_SHOWN} characters. ${UNTRUSTED}`,
          disposition,
        ),
      )
      .describe('In the order of the request'),
    next_step: z.string().optional(),
  }),
  subject: ({ items }) => items.map(({ line_item_id }) => line_item_id).join(','),
  async run(context, { items }) {
    const lines = new Set(items.map(({ line_item_id }) => line_item_id));
    if (lines.size < items.length) throw new ToolError('items must not name a line item twice.');
    const recorded = await assessDispositions(context, { items }, context.callId);
    const missing = missingGoods(missingIn(recorded));
    return {
      items: recorded.map(recordedView),
      ...(missing && { next_step: `Tell the user: ${missing}.` }),
    };
  },
});

/** A recorded disposition as the tool returns it, with a long note cut. */
function recordedView(record: DispositionRecord): DispositionEntry {
  const entry = dispositionView(record);
  return { ...entry, note: entry.note === null ? null : beginningOf(entry.note) };
}

function beginningOf(note: string): string {
  if (note.length <= NOTE_SHOWN) return note;
  // The cut may split a surrogate pair. `toWellFormed` replaces its lone half.
  return `${note.slice(0, NOTE_SHOWN).toWellFormed()}…`;
}
