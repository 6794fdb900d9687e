import { Actor_KindSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type {
  GetTimelineResponse,
  TimelineEntry,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { TimelineEntryObject, TimelinePage } from '../resources/timeline.ts';
import { AUTHOR_KINDS } from '../vocabulary.ts';
import { requiredIso, textOrNull, word } from './values.ts';

/** A page of a return's timeline. Throws for an entry without a time, which should not exist. */
export function timelinePageView(
  page: Pick<GetTimelineResponse, 'entries' | 'nextCursor'>,
): TimelinePage {
  return { timeline: page.entries.map(entryView), next_cursor: textOrNull(page.nextCursor) };
}

function entryView(entry: TimelineEntry): TimelineEntryObject {
  return {
    id: Number(entry.id),
    occurred_at: requiredIso(entry.occurredAt, 'occurred_at'),
    kind: entry.kind,
    text: entry.text,
    author: textOrNull(entry.author),
    author_kind: word(Actor_KindSchema, entry.actor?.kind ?? 0, AUTHOR_KINDS),
    facts: entry.facts,
  };
}
