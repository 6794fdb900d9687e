import { z } from 'zod';
import { SHORT_TEXT_MAX } from '../../../services/contract/limits.ts';
import { boolean, choice, id, text } from '../../../services/contract/resources/fields.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { RETURN_STATES } from '../../../services/contract/vocabulary.ts';
import { searchReturns as search } from '../../actions/search-returns.ts';
import { cursor, detail, limit, nextCursor, time } from '../fields.ts';
import { defineTool, readOnlyHints } from '../tool.ts';
import { returnLine, returnLinesView } from '../views/return-lines.ts';
import { returnSummary, returnSummaryView } from '../views/return-summary.ts';

const QUERY_MAX = 320;

export const searchReturns = defineTool({
  name: 'search_returns',
  title: 'Search returns',
  description:
    "Use this when you look for returns: by order name, tracking number, the shopper's e-mail address or an item's title, or by state, date, SKU or destination. Newest first. Closed ones are omitted unless requested by state or include_archived. For one return whose id you know, use get_return.",
  hints: readOnlyHints('returns'),
  input: z.strictObject({
    query: text({ max: QUERY_MAX })
      .optional()
      .describe(
        'An order name (#1001), tracking number or e-mail address as a whole, or part of an item title',
      ),
    states: z
      .array(choice(RETURN_STATES))
      .max(RETURN_STATES.length, { error: `must have at most ${RETURN_STATES.length} entries` })
      .optional()
      .describe('Any of these; review means flagged: a person must look first'),
    created_from: time('Created at or after this time').optional(),
    created_to: time('Created before this time').optional(),
    flagged_only: boolean().optional().describe('Only those in review'),
    include_archived: boolean().optional().describe('Includes closed ones'),
    sku: text({ max: SHORT_TEXT_MAX }).optional().describe('A line has exactly this SKU'),
    destination_id: id().optional().describe('Destination; list_destinations returns the ids'),
    detail,
    limit,
    cursor,
  }),
  output: z.strictObject({
    returns: z.array(
      returnSummary.extend({
        lines: z.array(returnLine).optional().describe('With detail full only'),
      }),
    ),
    total: z.int().describe('Matches in all, counted to 10,000'),
    next_cursor: nextCursor,
  }),
  async run(context, wanted) {
    const page = await search(context, {
      query: wanted.query,
      states: wanted.states,
      createdFrom: wanted.created_from,
      createdTo: wanted.created_to,
      includeArchived: wanted.include_archived ?? wanted.states?.includes('closed') ?? false,
      flaggedOnly: wanted.flagged_only,
      sku: wanted.sku,
      destinationId: wanted.destination_id === undefined ? 0n : BigInt(wanted.destination_id),
      limit: wanted.limit,
      cursor: wanted.cursor,
    });
    const returns = await Promise.all(
      page.returns.map(async (ret) => ({
        ...(await returnSummaryView(context, ret)),
        ...(wanted.detail === 'full' && { lines: returnLinesView(ret) }),
      })),
    );
    return { returns, total: page.total, next_cursor: textOrNull(page.nextCursor) };
  },
});
