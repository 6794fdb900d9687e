import { z } from 'zod';
import { Actor_KindSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { TimelineEntry } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { iso, textOrNull, word } from '../../../services/contract/views/values.ts';
import { getTimeline } from '../../actions/timeline.ts';
import { cursor, detail, limit, nextCursor, returnId, UNTRUSTED } from '../fields.ts';
import { defineTool, readOnlyHints } from '../tool.ts';

const AUTHOR_KINDS = ['user', 'api_key', 'partner_app', 'service', 'system'] as const;

const entry = z.strictObject({
  id: z.int(),
  occurred_at: z.string().nullable().meta({ format: 'date-time' }),
  kind: z.string().describe('Such as return.submitted, note, label.updated'),
  author: z.string().nullable(),
  author_kind: z.enum(AUTHOR_KINDS).nullable(),
  author_id: z.string().nullable(),
  untrusted_data: z
    .strictObject({
      text: z.string(),
      facts: z.record(z.string(), z.string()).optional().describe('Only with detail full'),
    })
    .describe(UNTRUSTED),
});

export const getReturnTimeline = defineTool({
  name: 'get_return_timeline',
  title: 'Get return timeline',
  description:
    'Use this when you need to know what happened to a return and who did it: submission, labels, gradings, flags, notes, processing and its failures. The newest entry comes first.',
  hints: readOnlyHints("a return's timeline"),
  input: z.strictObject({ return_id: returnId, detail, limit, cursor }),
  output: z.strictObject({
    return_id: z.int(),
    entries: z.array(entry),
    next_cursor: nextCursor,
  }),
  async run(context, input) {
    const page = await getTimeline(context, {
      returnId: BigInt(input.return_id),
      limit: input.limit,
      cursor: input.cursor,
      role: context.user.role,
    });
    const entries = page.entries.map((one) => entryView(one, input.detail === 'full'));
    return { return_id: input.return_id, entries, next_cursor: textOrNull(page.nextCursor) };
  },
});

function entryView(one: TimelineEntry, withFacts: boolean): z.output<typeof entry> {
  return {
    id: Number(one.id),
    occurred_at: iso(one.occurredAt),
    kind: one.kind,
    author: textOrNull(one.author),
    author_kind: word(Actor_KindSchema, one.actor?.kind ?? 0, AUTHOR_KINDS),
    author_id: textOrNull(one.actor?.id),
    untrusted_data: { text: one.text, ...(withFacts && { facts: one.facts }) },
  };
}
