import { z } from 'zod';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { SEARCH_TEXT_MAX, SHORT_TEXT_MAX } from '../../../services/contract/limits.ts';
import { boolean, choice, id, text } from '../../../services/contract/resources/fields.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { RETURN_STATES } from '../../../services/contract/vocabulary.ts';
import { searchReturns as search } from '../../actions/search-returns.ts';
import { cursor, detail, limit, nextCursor, time } from '../fields.ts';
import { firstThatFits } from '../page-weight.ts';
import { described } from '../result-schema.ts';
import { defineTool, readOnlyHints, ToolError } from '../tool.ts';
import { returnLine, returnLinesView } from '../views/return-lines.ts';
import { type ReturnSummary, returnSummary, returnSummaryView } from '../views/return-summary.ts';

/** All fields but `id` may be absent, because the rows of a long page are shortened. */
const returnRow = returnSummary.partial().extend({
  id: z.int(),
  lines: z
    .array(
      described(
        'Line: id, SKU, quantity, price, outcome, arrival, condition, disposition',
        returnLine,
      ),
    )
    .optional()
    .describe('Only with detail full'),
});
type ReturnRow = z.output<typeof returnRow>;

const NARROWER = 'For more, request fewer returns with limit, or one with get_return.';
const SUMMARY_NOTE = `These are summary rows, because the page with detail full is too long. ${NARROWER}`;
const SHORT_NOTE = `These rows have only their main fields, because the page is too long. ${NARROWER}`;

export const searchReturns = defineTool({
  name: 'search_returns',
  title: 'Search returns',
  description:
    'Use this when you look for returns. The newest comes first. Closed returns are omitted unless you request them with states or include_archived. If you know the id of a return, use get_return.',
  hints: readOnlyHints('returns'),
  input: z.strictObject({
    query: text({ max: SEARCH_TEXT_MAX })
      .optional()
      .describe(
        'A whole order name (#1001 or 1001), return id, SKU, tracking number or e-mail address, or part of an item title or shopper name',
      ),
    states: z
      .array(choice(RETURN_STATES))
      .max(RETURN_STATES.length, { error: `must have at most ${RETURN_STATES.length} entries` })
      .optional()
      .describe('In any of these; review means flagged: a person must look first'),
    created_from: time('Inclusive').optional(),
    created_to: time('Exclusive').optional(),
    flagged_only: boolean().optional().describe('Only returns in review'),
    include_archived: boolean().optional().describe('Also closed returns'),
    sku: text({ max: SHORT_TEXT_MAX }).optional().describe('The SKU of a line'),
    destination_id: id().optional().describe('list_destinations returns it'),
    detail,
    limit,
    cursor,
  }),
  output: z.strictObject({
    returns: z.array(returnRow),
    note: z.string().nullable().describe('What the rows lack if the page was too long'),
    total: z.int().describe('Matches on all pages, counted up to 10,000'),
    next_cursor: nextCursor,
  }),
  async run(context, input) {
    const { created_from: from, created_to: to } = input;
    if (from && to && from >= to) throw new ToolError('created_to must be after created_from.');
    const page = await search(context, {
      query: input.query,
      states: input.states,
      createdFrom: from,
      createdTo: to,
      includeArchived: input.include_archived ?? input.states?.includes('closed') ?? false,
      flaggedOnly: input.flagged_only,
      sku: input.sku,
      destinationId: input.destination_id === undefined ? 0n : BigInt(input.destination_id),
      limit: input.limit,
      cursor: input.cursor,
    });
    const summaries = await Promise.all(page.returns.map((ret) => returnSummaryView(context, ret)));
    const { rows, note } = shownRows(page.returns, summaries, input.detail);
    return { returns: rows, note, total: page.total, next_cursor: textOrNull(page.nextCursor) };
  },
});

/** The rows in the requested form, or in a shorter form when the page would be too long for an assistant. */
function shownRows(
  returns: readonly Return[],
  summaries: readonly ReturnSummary[],
  detail: 'summary' | 'full',
): { rows: ReturnRow[]; note: string | null } {
  const short = { rows: summaries.map(shortRow), note: SHORT_NOTE };
  const summary = { rows: summaries, note: null };
  const full = {
    rows: summaries.map((row, at) => ({ ...row, lines: linesOf(returns[at]) })),
    note: null,
  };
  const shown =
    detail === 'full'
      ? firstThatFits<ReturnRow>(full, [{ ...summary, note: SUMMARY_NOTE }, short])
      : firstThatFits<ReturnRow>(summary, [short]);
  return { rows: [...shown.rows], note: shown.note };
}

function linesOf(ret: Return | undefined): z.output<typeof returnLine>[] {
  return ret ? returnLinesView(ret) : [];
}

function shortRow(row: ReturnSummary): ReturnRow {
  const { id, order_name, state, processing, outcome, currency, total, refund, items } = row;
  const { label_status, created_at } = row;
  return {
    id,
    order_name,
    state,
    processing,
    outcome,
    currency,
    total,
    refund,
    items,
    label_status,
    created_at,
  };
}
