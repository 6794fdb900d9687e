import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import {
  type SummarizeRequest,
  type SummarizeResponse,
  SummarizeResponseSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { callerShape, parseInput, time } from '../../platform/values/input.ts';
import { formatAmount, minorOf } from '../../platform/values/money.ts';
import { outcomeText, stateText } from '../store/texts.ts';

const DEFAULT_PERIOD_MS = 30 * 24 * 60 * 60 * 1_000;
const REASONS = 20;

const period = z.object({
  ...callerShape,
  createdFrom: time.optional(),
  createdTo: time.optional(),
});

/**
 * Counts the returns that were created in a period, including archived ones: by state, by outcome, and by the reasons
 * of their line items. Values are in the currency of the shop.
 *
 * @throws DomainError INVALID_ARGUMENT when the period ends before it begins.
 */
export async function summarize(
  pool: pg.Pool,
  request: SummarizeRequest,
): Promise<SummarizeResponse> {
  const input = parseInput(period, request);
  const to = input.createdTo ?? new Date();
  const from = input.createdFrom ?? new Date(to.getTime() - DEFAULT_PERIOD_MS);
  if (from > to) throw invalidField('created_to', 'must not be before created_from');
  const values = [input.shopId, from, to];
  const states = await pool.query<{ state: string; count: number }>(
    `select state, count(*)::int as count from returns
      where shop_id = $1 and created_at >= $2 and created_at < $3
      group by state order by state`,
    values,
  );
  const outcomes = await pool.query<OutcomeRow>(
    `select outcome, count(*)::int as count, sum(return_total)::text as return_total,
            max(currency) as currency
       from returns
      where shop_id = $1 and created_at >= $2 and created_at < $3
      group by outcome order by outcome`,
    values,
  );
  const reasons = await pool.query<{ reason: string; count: number }>(
    `select l.reason, count(*)::int as count
       from returns r
       join return_lines l on l.shop_id = r.shop_id and l.return_id = r.id
      where r.shop_id = $1 and r.created_at >= $2 and r.created_at < $3
        and l.removed_at is null and l.reason <> ''
      group by l.reason order by count desc, l.reason limit ${REASONS}`,
    values,
  );
  return create(SummarizeResponseSchema, {
    byState: states.rows.map((row) => ({ ...row, state: stateText.fromText(row.state) })),
    byOutcome: outcomes.rows.map(outcomeCount),
    byReason: reasons.rows,
    total: states.rows.reduce((sum, row) => sum + row.count, 0),
  });
}

interface OutcomeRow {
  readonly outcome: string;
  readonly count: number;
  readonly return_total: string;
  readonly currency: string;
}

function outcomeCount(row: OutcomeRow) {
  return {
    outcome: outcomeText.fromText(row.outcome),
    count: row.count,
    returnTotal: formatAmount(minorOf(row.return_total, row.currency), row.currency),
  };
}
