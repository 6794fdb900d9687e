import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';

/**
 * Writes other values of line items and of their return. `edited_at` moves.
 *
 * @param o.lines columns of each line item, with its `id`. All have the same columns.
 * @param o.sums columns of the return.
 */
export async function storeAmounts(
  tx: Queryable,
  { shopId, id }: Pick<Return, 'shopId' | 'id'>,
  o: {
    readonly lines: readonly Readonly<Record<string, unknown>>[];
    readonly sums: Readonly<Record<string, unknown>>;
  },
): Promise<void> {
  await tx.query(
    `update return_lines l set ${assignments(o.lines[0] ?? {})}
       from jsonb_populate_recordset(null::return_lines, $3::jsonb) e
      where l.shop_id = $1 and l.return_id = $2 and l.id = e.id`,
    [shopId, id, JSON.stringify(o.lines)],
  );
  await tx.query(
    `update returns r set edited_at = clock_timestamp(), ${assignments(o.sums)}
       from jsonb_populate_record(null::returns, $3::jsonb) e
      where r.shop_id = $1 and r.id = $2`,
    [shopId, id, JSON.stringify(o.sums)],
  );
}

function assignments(row: object): string {
  return Object.keys(row)
    .filter((column) => column !== 'id')
    .map((column) => `${column} = e.${column}`)
    .join(', ');
}
