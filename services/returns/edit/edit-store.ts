import type { Outcome, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { amountColumns, type Both } from '../../platform/money.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { type CheckedSums, LINE_AMOUNTS, STORED_RETURN_AMOUNTS } from '../money/totals.ts';
import { lineOutcomeText, outcomeText } from '../store/texts.ts';
import type { EditedLine } from './edit-lines.ts';

/** Writes an edit: the changed line items, the removed ones, and the amounts of the return. */
export async function storeEdit(
  tx: Queryable,
  current: Return,
  edit: {
    readonly lines: readonly EditedLine[];
    readonly sums: Both<CheckedSums>;
    readonly outcome: Outcome;
  },
): Promise<void> {
  const currencies = { shop: current.currency, presentment: current.presentmentCurrency };
  const rows = edit.lines
    .filter((line) => !line.removed)
    .map((line) => ({
      id: line.lineItemId.toString(),
      quantity: line.quantity,
      reason: line.reason,
      parent_reason: line.parentReason,
      outcome: lineOutcomeText.toText(line.outcome),
      ...amountColumns(LINE_AMOUNTS, line.sums, currencies),
    }));
  await tx.query(
    `update return_lines l set ${assignments(rows[0] ?? {}, 'e')}
       from jsonb_populate_recordset(null::return_lines, $3::jsonb) e
      where l.shop_id = $1 and l.return_id = $2 and l.id = e.id`,
    [current.shopId, current.id, JSON.stringify(rows)],
  );
  const removed = edit.lines.filter((line) => line.removed).map((line) => line.lineItemId);
  if (removed.length > 0) await removeLines(tx, current, removed);
  const sums = {
    outcome: outcomeText.toText(edit.outcome),
    ...amountColumns(STORED_RETURN_AMOUNTS, edit.sums, currencies),
  };
  await tx.query(
    `update returns r set edited_at = clock_timestamp(), ${assignments(sums, 'e')}
       from jsonb_populate_record(null::returns, $3::jsonb) e
      where r.shop_id = $1 and r.id = $2`,
    [current.shopId, current.id, JSON.stringify(sums)],
  );
}

function assignments(row: object, from: string): string {
  return Object.keys(row)
    .filter((column) => column !== 'id')
    .map((column) => `${column} = ${from}.${column}`)
    .join(', ');
}

async function removeLines(tx: Queryable, current: Return, ids: readonly bigint[]): Promise<void> {
  await tx.query(
    `update return_lines set removed_at = clock_timestamp(), live = false
      where shop_id = $1 and return_id = $2 and id = any($3::bigint[])`,
    [current.shopId, current.id, ids],
  );
  await tx.query(
    `update labels
        set line_item_ids = array(
              select line from unnest(line_item_ids) with ordinality as u (line, n)
               where line <> all($3::bigint[]) order by n)
      where shop_id = $1 and return_id = $2 and line_item_ids && $3::bigint[]`,
    [current.shopId, current.id, ids],
  );
}
