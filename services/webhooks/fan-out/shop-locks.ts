import type { Queryable } from '../../platform/postgres.ts';

/** Any number that no other lock of the database uses. */
const LOCK_SPACE = 1_873;

/**
 * Keeps fan-out and redaction of a shop apart until the transaction ends: what is being shaped with
 * the customer would otherwise be committed after the redaction has looked for it. Fan-outs go side by
 * side. Taken first of all, in one order.
 */
export async function lockShops(
  tx: Queryable,
  o: { fannedOut: readonly bigint[]; redacted: readonly bigint[] },
): Promise<void> {
  const redacted = new Set(o.redacted);
  const all = [...new Set([...o.fannedOut, ...redacted])].sort((a, b) => (a < b ? -1 : 1));
  if (all.length === 0) return;
  await tx.query({
    name: 'lock-shops',
    text: `select case when g.alone then pg_advisory_xact_lock($3, g.shop)
                       else pg_advisory_xact_lock_shared($3, g.shop) end
             from (select hashint8(u.shop) as shop, bool_or(u.alone) as alone
                     from unnest($1::bigint[], $2::boolean[]) as u (shop, alone)
                    group by 1 order by 1 offset 0) g`,
    values: [all, all.map((shop) => redacted.has(shop)), LOCK_SPACE],
  });
}
