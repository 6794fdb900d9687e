import type { Queryable } from '../../platform/postgres.ts';
import { lineItemNotFound } from '../refusals.ts';

/** The return of each line that is the shop's; lines of nobody or of another shop are left out. */
export async function ownersOf(
  db: Queryable,
  shopId: bigint,
  lineItemIds: readonly bigint[],
  o: { readonly removedToo?: boolean } = {},
): Promise<Map<bigint, bigint>> {
  const { rows } = await db.query<{ id: bigint; return_id: bigint }>({
    name: 'line-owners',
    text: `select id, return_id from return_lines
            where shop_id = $1 and id = any($2::bigint[]) and ($3 or removed_at is null)
            order by id`,
    values: [shopId, lineItemIds, o.removedToo ?? false],
  });
  return new Map(rows.map((row) => [row.id, row.return_id]));
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
  o: { readonly removedToo?: boolean } = {},
): Promise<bigint[]> {
  const owners = await ownersOf(db, shopId, lineItemIds, o);
  if (lineItemIds.some((id) => !owners.has(id))) throw lineItemNotFound();
  return [...new Set(owners.values())];
}
