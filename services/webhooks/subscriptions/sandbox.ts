import type { Queryable } from '../../platform/postgres/postgres.ts';
import { raw, type Sql, sql } from '../../platform/postgres/sql.ts';

/**
 * Sets whether a shop is a sandbox. Deliveries of a sandbox have a header. The change affects first attempts whose
 * delivery is created after it, and retries whose delivery is read from the queue after it.
 */
export async function setSandbox(
  db: Queryable,
  { shopId, sandbox }: { readonly shopId: bigint; readonly sandbox: boolean },
): Promise<void> {
  const statement = sandbox
    ? 'insert into sandbox_shops (shop_id) values ($1) on conflict (shop_id) do nothing'
    : 'delete from sandbox_shops where shop_id = $1';
  await db.query(statement, [shopId]);
}

/** SQL condition: the shop of `row` is a sandbox. */
export const isSandboxShop = (row: string): Sql =>
  sql`exists (select from sandbox_shops b where b.shop_id = ${raw(row)}.shop_id)`;
