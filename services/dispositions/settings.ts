import type { Queryable } from '../platform/postgres/postgres.ts';

/** The default outcome of shops without settings. */
const BACK_TO_STOCK = 'back_to_stock';

/** The shop's default outcome, for assessments without an outcome. */
export async function findDefaultOutcome(db: Queryable, shopId: bigint): Promise<string> {
  const { rows } = await db.query<{ default_outcome: string }>(
    'select default_outcome from settings where shop_id = $1',
    [shopId],
  );
  return rows[0]?.default_outcome ?? BACK_TO_STOCK;
}

/** Sets the default outcome of a shop. @param outcome its name in the database. The caller has checked it. */
export async function saveDefaultOutcome(
  db: Queryable,
  shopId: bigint,
  outcome: string,
): Promise<void> {
  await db.query(
    `insert into settings (shop_id, default_outcome) values ($1, $2)
     on conflict (shop_id) do update set default_outcome = excluded.default_outcome`,
    [shopId, outcome],
  );
}
