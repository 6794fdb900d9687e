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
    "Use this when you look for returns: by order name, tracking number, the shopper's e-mail address or an item's title, or by state, date, SKU or destination. The newest comes first. Closed returns are omitted unless you request them with states or include_archived. If you know the id of a return, use get_return.",
  hints: readOnlyHints('returns'),
  input: z.strictObject({
    query: text({ max: QUERY_MAX })
      .optional()
      .describe(
        'A whole order name (#1001), tracking number or e-mail address, or a part of an item title',
      ),
    states: z
      .array(choice(RETURN_STATES))
      .max(RETURN_STATES.length, { error: `must have at most ${RETURN_STATES.length} entries` })
      .optional()
      .describe('Returns in any of these states; review means flagged: a person must look first'),
    created_from: time('Created at or after this time').optional(),
    created_to: time('Created before this time').optional(),
    flagged_only: boolean().optional().describe('Only returns in review'),
    include_archived: boolean().optional().describe('Also closed returns'),
    sku: text({ max: SHORT_TEXT_MAX }).optional().describe('Only returns with a line of this SKU'),
    destination_id: id()
      .optional()
      .describe('Only returns to this destination; list_destinations returns the ids'),
    detail,
    limit,
    cursor,
  }),
  output: z.strictObject({
    returns: z.array(
      returnSummary.extend({
        lines: z.array(returnLine).optional().describe('Only with detail full'),
      }),
    ),
    total: z.int().describe('Number of matches on all pages, counted up to 10,000'),
    next_cursor: nextCursor,
  }),
  async run(context, input) {
    const page = await search(context, {
      query: input.query,
      states: input.states,
      createdFrom: input.created_from,
      createdTo: input.created_to,
      includeArchived: input.include_archived ?? input.states?.includes('closed') ?? false,
      flaggedOnly: input.flagged_only,
      sku: input.sku,
      destinationId: input.destination_id === undefined ? 0n : BigInt(input.destination_id),
      limit: input.limit,
      cursor: input.cursor,
    });
    const returns = await Promise.all(
      page.returns.map(async (ret) => ({
        ...(await returnSummaryView(context, ret)),
        ...(input.detail === 'full' && { lines: returnLinesView(ret) }),
      })),
    );
    return { returns, total: page.total, next_cursor: textOrNull(page.nextCursor) };
  },
});
