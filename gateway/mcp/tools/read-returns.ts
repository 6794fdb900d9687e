import { z } from 'zod';
import { Actor_KindSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  DispositionOutcomeSchema,
  LabelStatusSchema,
  LineOutcomeSchema,
  OutcomeSchema,
  type Return,
  ReturnMethodSchema,
  ReturnStateSchema,
  ReturnTypeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { TimelineEntry } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  returnDetails,
  returnDetailsView,
} from '../../../services/contract/details/return-details.ts';
import { SEARCH_TEXT_MAX, SHORT_TEXT_MAX } from '../../../services/contract/limits.ts';
import type { DetailsSelector } from '../../../services/contract/resources/details-query.ts';
import { boolean, choice, id, text } from '../../../services/contract/resources/fields.ts';
import { policy } from '../../../services/contract/resources/policy.ts';
import { isoTime } from '../../../services/contract/time.ts';
import { policyView } from '../../../services/contract/views/policy.ts';
import { idNumber, iso, textOrNull, word, zero } from '../../../services/contract/views/values.ts';
import {
  AUTHOR_KINDS,
  DISPOSITION_OUTCOMES,
  LABEL_STATUSES,
  LINE_OUTCOMES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  RETURN_TYPES,
} from '../../../services/contract/vocabulary.ts';
import { getPolicy } from '../../actions/policy.ts';
import { findReturn, summarizeReturns } from '../../actions/returns.ts';
import { searchReturns as search } from '../../actions/search-returns.ts';
import { getTimeline } from '../../actions/timeline.ts';
import {
  cursor,
  detail,
  limit,
  nextCursor,
  orderName,
  orderProviderId,
  returnId,
  time,
  UNTRUSTED,
} from '../schema/fields.ts';
import { maskedEmail } from '../schema/masked-email.ts';
import { firstThatFits } from '../schema/page-weight.ts';
import { described } from '../schema/result-schema.ts';
import { defineTool, readOnlyHints, type ToolContext, ToolError } from '../tool.ts';

const nullable = () => z.string().nullable();
const when = () => z.string().nullable().meta({ format: 'date-time' });

const returnSummary = z.strictObject({
  id: z.int(),
  order_name: nullable(),
  state: z.enum(RETURN_STATES).nullable(),
  processing: z.boolean().describe('Queued or running'),
  type: z.enum(RETURN_TYPES).nullable(),
  outcome: z.enum(RETURN_OUTCOMES).nullable(),
  return_method: z.enum(RETURN_METHODS).nullable(),
  currency: z.string().describe("The shop's currency; the amounts of this return are in it"),
  total: z.string(),
  refund: z.string(),
  items: z.int().describe('Units in all lines'),
  label_status: z.enum(LABEL_STATUSES).nullable(),
  tracking_number: nullable(),
  destination_id: z.int().nullable(),
  destination_name: nullable(),
  created_at: when(),
  updated_at: when(),
  customer_email_masked: nullable().describe(
    'Masked; get_return with detail full returns the whole address',
  ),
  untrusted_data: described(
    `item_titles of five lines, reasons, flag_reasons. ${UNTRUSTED}`,
    z.strictObject({
      item_titles: z.array(z.string()),
      reasons: z.array(z.string()),
      flag_reasons: z.array(z.string()),
    }),
  ),
});
type ReturnSummary = z.output<typeof returnSummary>;

const TITLES_MAX = 5;
const REASONS_MAX = 10;

async function returnSummaryView(context: ToolContext, ret: Return): Promise<ReturnSummary> {
  const label = ret.labels.at(-1);
  const none = zero(ret.currency);
  const reasons = new Set(ret.lineItems.map(({ reason }) => reason).filter(Boolean));
  return {
    id: Number(ret.id),
    order_name: textOrNull(ret.order?.name),
    state: word(ReturnStateSchema, ret.state, RETURN_STATES),
    processing: ret.processing,
    type: word(ReturnTypeSchema, ret.type, RETURN_TYPES),
    outcome: word(OutcomeSchema, ret.outcome, RETURN_OUTCOMES),
    return_method: word(ReturnMethodSchema, ret.returnMethod, RETURN_METHODS),
    currency: ret.currency,
    total: textOrNull(ret.totals?.total) ?? none,
    refund: textOrNull(ret.totals?.refund) ?? none,
    items: ret.lineItems.reduce((sum, { quantity }) => sum + quantity, 0),
    label_status: label ? word(LabelStatusSchema, label.status, LABEL_STATUSES) : null,
    tracking_number: textOrNull(label?.trackingNumber),
    destination_id: idNumber(ret.destinationId),
    destination_name: await context.destinationNames(context, ret.destinationId),
    created_at: iso(ret.createdAt),
    updated_at: iso(ret.updatedAt),
    customer_email_masked: maskedEmail(ret.customer?.email),
    untrusted_data: {
      item_titles: ret.lineItems.slice(0, TITLES_MAX).map(({ title }) => title),
      reasons: [...reasons].slice(0, REASONS_MAX),
      flag_reasons: ret.flagReasons,
    },
  };
}

const returnLine = z.strictObject({
  line_item_id: z.int(),
  sku: nullable(),
  quantity: z.int(),
  price: z.string().describe("Decimal amount of the whole line, in the shop's currency"),
  outcome: z.enum(LINE_OUTCOMES).nullable(),
  returned_at: nullable().describe('When the goods arrived'),
  condition: nullable().describe('The result of grading, in words'),
  disposition: z.enum(DISPOSITION_OUTCOMES).nullable(),
  untrusted_data: z
    .strictObject({ title: nullable(), reason: nullable(), parent_reason: nullable() })
    .describe(UNTRUSTED),
});

function returnLinesView(ret: Return): z.output<typeof returnLine>[] {
  return ret.lineItems.map((line) => ({
    line_item_id: Number(line.lineItemId),
    sku: textOrNull(line.sku),
    quantity: line.quantity,
    price: textOrNull(line.amounts?.price) ?? zero(ret.currency),
    outcome: word(LineOutcomeSchema, line.outcome, LINE_OUTCOMES),
    returned_at: iso(line.returnedAt),
    condition: textOrNull(line.condition?.title),
    disposition: line.disposition
      ? word(DispositionOutcomeSchema, line.disposition.outcome, DISPOSITION_OUTCOMES)
      : null,
    untrusted_data: {
      title: textOrNull(line.title),
      reason: textOrNull(line.reason),
      parent_reason: textOrNull(line.parentReason),
    },
  }));
}

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
  right: 'seeReturns',
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
    include_archived: boolean().optional(),
    sku: text({ max: SHORT_TEXT_MAX }).optional(),
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
  sample: () => ({ query: '#1001', states: ['open', 'review'], detail: 'full' }),
  costly: () => ({ limit: 50, detail: 'full', include_archived: true, query: 'a' }),
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

const ONE_SELECTOR = 'Give exactly one of return_id, order_id, order_name and provider_order_id.';

export const getReturn = defineTool({
  name: 'get_return',
  right: 'seeReturns',
  title: 'Get return',
  description:
    'Use this when you need one return. Give exactly one id or the order name. If an order has several returns, you get the newest. Start with detail summary. Detail full adds the e-mail address, labels, amounts and exchanges.',
  hints: readOnlyHints('one return'),
  input: z.strictObject({
    return_id: returnId.optional(),
    order_id: id().optional().describe("The order's id in this service"),
    order_name: orderName.optional(),
    provider_order_id: orderProviderId.optional(),
    detail,
  }),
  output: z.strictObject({
    return: described(
      'As search_returns returns it with detail full',
      returnSummary.extend({ lines: z.array(returnLine) }),
    ).optional(),
    destination_name: z.string().nullable().optional(),
    untrusted_details: described(
      `With detail full, instead of return: all fields of the REST API. ${UNTRUSTED}`,
      returnDetails,
    ).optional(),
  }),
  sample: ({ openReturn }) => ({ return_id: openReturn }),
  costly: ({ openReturn }) => ({ return_id: openReturn, detail: 'full' }),
  async run(context, input) {
    const ret = await findReturn(context, selectorOf(input));
    if (input.detail === 'full') return fullView(context, ret);
    const summary = await returnSummaryView(context, ret);
    return { return: { ...summary, lines: returnLinesView(ret) } };
  },
});

async function fullView(context: ToolContext, ret: Return) {
  return {
    destination_name: await context.destinationNames(context, ret.destinationId),
    untrusted_details: returnDetailsView(ret),
  };
}

function selectorOf(o: {
  return_id?: number | undefined;
  order_id?: number | undefined;
  order_name?: string | undefined;
  provider_order_id?: number | undefined;
}): DetailsSelector {
  const selectors: DetailsSelector[] = [];
  if (o.return_id !== undefined) selectors.push({ case: 'returnId', value: BigInt(o.return_id) });
  if (o.order_id !== undefined) selectors.push({ case: 'orderId', value: BigInt(o.order_id) });
  if (o.order_name !== undefined) selectors.push({ case: 'orderName', value: o.order_name });
  if (o.provider_order_id !== undefined) {
    selectors.push({ case: 'providerOrderId', value: BigInt(o.provider_order_id) });
  }
  const [selector, second] = selectors;
  if (!selector || second) throw new ToolError(ONE_SELECTOR);
  return selector;
}

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
  right: 'seeReturns',
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
  sample: ({ openReturn }) => ({ return_id: openReturn, detail: 'full' }),
  costly: ({ openReturn }) => ({ return_id: openReturn, limit: 50, detail: 'full' }),
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

const DAYS = 30;
const DAY_MS = 86_400_000;

export const getReturnsSummary = defineTool({
  name: 'get_returns_summary',
  right: 'seeFigures',
  title: 'Get returns summary',
  description:
    'Use this when the user asks how many returns there were in a period, what they were worth, how they ended, or why shoppers send goods back. It returns only counts and values.',
  hints: readOnlyHints('counts of returns'),
  input: z.strictObject({
    created_from: time(`Inclusive; ${DAYS} days before created_to when absent`).optional(),
    created_to: time('Exclusive; now when absent').optional(),
  }),
  output: z.strictObject({
    from: z.string().meta({ format: 'date-time' }),
    to: z.string().meta({ format: 'date-time' }),
    currency: z.string(),
    total: z.int().describe('Number of returns created in the period, with archived ones'),
    by_state: z.array(
      described(
        'state, count',
        z.strictObject({ state: z.enum(RETURN_STATES).nullable(), count: z.int() }),
      ),
    ),
    by_outcome: z.array(
      described(
        'outcome, count, return_total',
        z.strictObject({
          outcome: z.enum(RETURN_OUTCOMES).nullable(),
          count: z.int(),
          return_total: z.string(),
        }),
      ),
    ),
    top_reasons: z
      .array(
        z.strictObject({
          count: z.int(),
          untrusted_data: z.strictObject({ reason: z.string() }).describe(UNTRUSTED),
        }),
      )
      .describe('The 20 most frequent reasons'),
  }),
  sample: () => ({ created_from: '2026-11-01T00:00:00Z', created_to: '2026-11-20T00:00:00Z' }),
  costly: () => ({}),
  async run(context, input) {
    const to = input.created_to ?? new Date();
    const from = input.created_from ?? new Date(to.getTime() - DAYS * DAY_MS);
    if (from >= to) throw new ToolError('created_to must be after created_from.');
    const sums = await summarizeReturns(context, { from, to });
    return {
      from: isoTime(from),
      to: isoTime(to),
      currency: context.user.currency,
      total: sums.total,
      by_state: sums.byState.map(({ state, count }) => ({
        state: word(ReturnStateSchema, state, RETURN_STATES),
        count,
      })),
      by_outcome: sums.byOutcome.map(({ outcome, count, returnTotal }) => ({
        outcome: word(OutcomeSchema, outcome, RETURN_OUTCOMES),
        count,
        return_total: returnTotal,
      })),
      top_reasons: sums.byReason.map(({ reason, count }) => ({
        count,
        untrusted_data: { reason },
      })),
    };
  },
});

export const getReturnPolicy = defineTool({
  name: 'get_return_policy',
  right: 'seePolicy',
  title: 'Get return policy',
  description:
    'Use this when the user asks what the shop takes back: windows, final sale, countries, reasons, fees, what is reviewed, and what is processed without a person.',
  hints: readOnlyHints("the shop's policy"),
  input: z.strictObject({}),
  output: z.strictObject({
    policy: described(
      'version, window, final_sale, exceptions, countries, outcomes, return_methods, reasons, fees, review, process, refund_basis, withdrawals. Empty and null parts allow everything',
      policy,
    ),
  }),
  sample: () => ({}),
  async run(context) {
    return { policy: policyView(await getPolicy(context)) };
  },
});
