import type { Queryable } from '../../platform/postgres/postgres.ts';
import { named, param, sql } from '../../platform/postgres/sql.ts';

/** First number of these advisory locks. No other lock of the database uses it. */
export const LOCK_SPACE = 1_873;

/**
 * Locks shops until the transaction ends, so that a fan-out and a redaction of one shop never run at the same time.
 * Without this, a fan-out could commit a payload with the customer after the redaction has searched for payloads.
 * Several fan-outs may run in parallel. This must be the first lock of a transaction. It locks shops in a fixed order.
 */
export async function lockShops(
  tx: Queryable,
  o: { fannedOut: readonly bigint[]; redacted: readonly bigint[] },
): Promise<void> {
  const redacted = new Set(o.redacted);
  const all = [...new Set([...o.fannedOut, ...redacted])].sort((a, b) => (a < b ? -1 : 1));
  if (all.length === 0) return;
  const isExclusive = all.map((shop) => redacted.has(shop));
  const space = param(LOCK_SPACE);
  await tx.query(
    named(
      'lock-shops',
      sql`select case when hashed.exclusive then pg_advisory_xact_lock(${space}, hashed.shop)
                      else pg_advisory_xact_lock_shared(${space}, hashed.shop) end
            from (select hashint8(input.shop) as shop, bool_or(input.exclusive) as exclusive
                    from unnest(${all}::bigint[], ${isExclusive}::boolean[]) as input (shop, exclusive)
                   group by 1 order by 1 offset 0) hashed`,
    ),
  );
}
