import type { Queryable } from '../../platform/postgres/postgres.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { lineItemNotFound } from '../errors.ts';

/** The return of a line item, and the units of the line item. */
interface LineOwner {
  readonly returnId: bigint;
  readonly quantity: number;
}

/**
 * Returns the return of each line item. Line items that do not exist, belong to another shop or were removed are left
 * out.
 */
export async function ownersOf(
  db: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<Map<bigint, LineOwner>> {
  const { rows } = await db.query<{ id: bigint; return_id: bigint; quantity: number }>({
    name: 'line-owners',
    text: `select id, return_id, quantity from return_lines
            where shop_id = $1 and id = any($2::bigint[]) and removed_at is null
            order by id`,
    values: [shopId, lineItemIds],
  });
  return new Map(rows.map(({ id, return_id: returnId, quantity }) => [id, { returnId, quantity }]));
}

/** The latest assessment of a line item, with its note. */
export interface AssessedNote {
  readonly assessmentId: bigint;
  readonly note?: string;
}

/** Maximum number of line items in one call. Their notes always fit into one response. */
const NOTES_MAX = 30;

/**
 * Returns the latest assessment of each line item of the shop, by the id of the line item. Line items without an
 * assessment are left out.
 *
 * @throws DomainError INVALID_ARGUMENT for more than 30 line items.
 */
export async function notesOf(
  db: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<Map<bigint, AssessedNote>> {
  if (lineItemIds.length > NOTES_MAX) {
    throw invalidField('line_item_ids', `must hold at most ${NOTES_MAX} when notes are requested`);
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
 * Returns the ids of the returns of these line items, each once.
 *
 * @throws DomainError LINE_ITEM_NOT_FOUND when one of the line items does not belong to the shop.
 */
export async function returnsOfLines(
  db: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
): Promise<bigint[]> {
  const owners = await ownersOf(db, shopId, lineItemIds);
  if (lineItemIds.some((id) => !owners.has(id))) throw lineItemNotFound();
  return [...new Set([...owners.values()].map(({ returnId }) => returnId))];
}

/**
 * Locks the returns of these line items, in the order of their ids. Removed line items count, too.
 *
 * @param lineItemIds without duplicates.
 * @returns the ids of the returns, in order.
 * @throws DomainError LINE_ITEM_NOT_FOUND when one of the line items does not belong to the shop.
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
