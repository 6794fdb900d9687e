import { z } from 'zod';
import { NOTE_MAX } from '../../../services/contract/limits.ts';
import { requiredText } from '../../../services/contract/resources/fields.ts';
import { iso, textOrNull } from '../../../services/contract/views/values.ts';
import { addNote } from '../../actions/timeline.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool } from '../tool.ts';

export const addReturnNote = defineTool({
  name: 'add_return_note',
  title: 'Add note to return',
  description:
    "Use this when something about a return should be written down for colleagues. The note is in the return's timeline, with the user's name. The shopper does not see it. It cannot be changed or removed.",
  hints: {
    readOnly: { is: false, because: 'It adds an entry to the timeline.' },
    destructive: { is: false, because: 'It changes and removes nothing.' },
    idempotent: { is: false, because: 'Each call without an idempotency key adds a note.' },
    openWorld: { is: false, because: "It changes only this service's own records." },
  },
  input: z.strictObject({
    return_id: returnId,
    text: requiredText({ max: NOTE_MAX }).describe('The note, in plain text'),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({
    return_id: z.int(),
    entry_id: z.int(),
    author: z.string().nullable(),
    occurred_at: z.string().nullable().meta({ format: 'date-time' }),
  }),
  subject: ({ return_id }) => String(return_id),
  async run(context, { return_id, text }) {
    const note = { returnId: BigInt(return_id), text, idempotencyKey: context.callId };
    const entry = await addNote(context, note);
    return {
      return_id,
      entry_id: Number(entry.id),
      author: textOrNull(entry.author),
      occurred_at: iso(entry.occurredAt),
    };
  },
});
