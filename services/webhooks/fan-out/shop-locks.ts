import type { Queryable } from '../../platform/postgres.ts';
import { named, param, sql } from '../../platform/sql.ts';

/** Any number that no other lock of the database uses. */
const LOCK_SPACE = 1_873;

/**
 * Prevents fan-out and redaction of a shop at the same time, until the transaction ends. Otherwise a payload with the
 * customer could be committed after the redaction has searched for it. Fan-outs may run in parallel. Always the first
 * lock, and in a fixed order.
 */
export async function lockShops(
  tx: Queryable,
  o: { fannedOut: readonly bigint[]; redacted: readonly bigint[] },
): Promise<void> {
  const redacted = new Set(o.redacted);
  const all = [...new Set([...o.fannedOut, ...redacted])].sort((a, b) => (a < b ? -1 : 1));
  if (all.length === 0) return;
  const isAlone = all.map((shop) => redacted.has(shop));
  const space = param(LOCK_SPACE);
  await tx.query(
    named(
      'lock-shops',
      sql`select case when g.alone then pg_advisory_xact_lock(${space}, g.shop)
                      else pg_advisory_xact_lock_shared(${space}, g.shop) end
            from (select hashint8(u.shop) as shop, bool_or(u.alone) as alone
                    from unnest(${all}::bigint[], ${isAlone}::boolean[]) as u (shop, alone)
                   group by 1 order by 1 offset 0) g`,
    ),
  );
}
