import { z } from 'zod';
import { COMMENT_MAX } from '../limits.ts';
import { AUTHOR_KINDS } from '../vocabulary.ts';
import { text } from './fields.ts';
import { type Page, parametersIn, type QueryResult, readQuery } from './query.ts';
import { id, means, nullableText, requiredTime } from './response-fields.ts';

/** Body of cancel return. */
export const cancelBody = z
  .object({
    reason: text({ max: COMMENT_MAX, own: true })
      .nullish()
      .meta({ description: 'Why, for the timeline' }),
  })
  .meta({ id: 'CancelReturnBody' });
export type CancelBody = z.infer<typeof cancelBody>;

const timelineEntry = z
  .object({
    id: means(id(), 'Identifier of the entry; a later entry has a larger one'),
    occurred_at: means(requiredTime(), 'When it happened'),
    kind: means(z.string(), 'What happened, such as `return.submitted`, `note`, `label.updated`'),
    text: means(z.string(), 'What happened, in words'),
    author: means(nullableText(), 'Name of who did it; null when unknown'),
    author_kind: means(z.enum(AUTHOR_KINDS).nullable(), 'Kind of who did it; null when unknown'),
    facts: means(
      z.record(z.string(), z.string()),
      'Further facts by their names. A fraud report shows none, and no author',
    ),
  })
  .meta({ id: 'TimelineEntry' });
export type TimelineEntryObject = z.infer<typeof timelineEntry>;

export const timelinePage = z
  .object({
    timeline: z.array(timelineEntry).meta({ description: 'Newest first' }),
    next_cursor: z
      .string()
      .nullable()
      .meta({ description: '`cursor` of the next page; null on the last' }),
  })
  .meta({ id: 'TimelinePage' });
export type TimelinePage = z.infer<typeof timelinePage>;

/** The parameters of the query. */
export const TIMELINE_PARAMETERS = ['limit', 'cursor'] as const;

/** Parses the query of a timeline. Each known parameter may occur once, and must not be empty. */
export function readTimelineQuery(query: URLSearchParams): QueryResult<Page> {
  return readQuery(() => parametersIn(query, TIMELINE_PARAMETERS).page());
}
