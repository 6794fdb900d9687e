import { invalidField } from '../../platform/errors.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { lineItemNotFound } from '../refusals.ts';

/** The return of each line that is the shop's; lines of nobody, of another shop or taken out by an edit are left out. */
export async function ownersOf(
  db: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<Map<bigint, bigint>> {
  const { rows } = await db.query<{ id: bigint; return_id: bigint }>({
    name: 'line-owners',
    text: `select id, return_id from return_lines
            where shop_id = $1 and id = any($2::bigint[]) and removed_at is null
            order by id`,
    values: [shopId, lineItemIds],
  });
  return new Map(rows.map((row) => [row.id, row.return_id]));
}

/** The latest assessment of a line, and its note. */
export interface AssessedNote {
  readonly assessmentId: bigint;
  readonly note?: string;
}

/** Lines whose notes one answer surely has room for. */
const NOTES_MAX = 30;

/**
 * The latest assessment of each line of the shop that has one, by line.
 *
 * @throws DomainError INVALID_ARGUMENT for more than 30 lines.
 */
export async function notesOf(
  db: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<Map<bigint, AssessedNote>> {
  if (lineItemIds.length > NOTES_MAX) {
    throw invalidField('line_item_ids', `must hold at most ${NOTES_MAX} where notes are asked for`);
  }
  const { rows } = await db.query<{
    line_item_id: bigint;
    assessment_id: bigint;
    note: string | null;
  }>(
    `select line_item_id, assessment_id, note from line_dispositions
      where shop_id = $1 and line_item_id = any($2::bigint[])`,
    [shopId, lineItemIds],
  );
  return new Map(
    rows.map(({ line_item_id, assessment_id: assessmentId, note }) => [
      line_item_id,
      { assessmentId, ...(note !== null && { note }) },
    ]),
  );
}

/**
 * The returns that the lines belong to, each once.
 *
 * @throws DomainError LINE_ITEM_NOT_FOUND when one of the lines is not the shop's.
 */
export async function returnsOfLines(
  db: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<bigint[]> {
  const owners = await ownersOf(db, shopId, lineItemIds);
  if (lineItemIds.some((id) => !owners.has(id))) throw lineItemNotFound();
  return [...new Set(owners.values())];
}

/**
 * Locks the returns that the lines belong to, those taken out by an edit too, in the order of their
 * ids, and answers these.
 *
 * @param lineItemIds each once.
 * @throws DomainError LINE_ITEM_NOT_FOUND when one of the lines is not the shop's.
 */
export async function lockReturnsOfLines(
  tx: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint; lines: number }>({
    name: 'lock-returns-of-lines',
    text: `with owned as materialized (
             select return_id from return_lines where shop_id = $1 and id = any($2::bigint[])
           )
           select id, (select count(*)::integer from owned) as lines from returns
            where shop_id = $1 and id = any(array(select return_id from owned))
            order by id for update`,
    values: [shopId, lineItemIds],
  });
  if (rows[0]?.lines !== lineItemIds.length) throw lineItemNotFound();
  return rows.map((row) => row.id);
}
