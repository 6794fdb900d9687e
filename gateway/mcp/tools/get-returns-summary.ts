import { z } from 'zod';
import { OutcomeSchema, ReturnStateSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { isoTime } from '../../../services/contract/time.ts';
import { word } from '../../../services/contract/views/values.ts';
import { RETURN_OUTCOMES, RETURN_STATES } from '../../../services/contract/vocabulary.ts';
import { summarizeReturns } from '../../actions/returns.ts';
import { time, UNTRUSTED } from '../fields.ts';
import { described } from '../result-schema.ts';
import { defineTool, readOnlyHints, ToolError } from '../tool.ts';

const DAYS = 30;
const DAY_MS = 86_400_000;

export const getReturnsSummary = defineTool({
  name: 'get_returns_summary',
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
          count: z.int().describe('Number of lines'),
          untrusted_data: z.strictObject({ reason: z.string() }).describe(UNTRUSTED),
        }),
      )
      .describe('The 20 most frequent reasons'),
  }),
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
