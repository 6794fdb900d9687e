import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { Return } from '../return.ts';
import { saveState } from '../store/save-state.ts';
import { addTimeline } from '../store/timeline-store.ts';
import { MISSING_GOODS } from './policy.ts';

const CANDIDATES = `
select r.id, r.policy_version from returns r
  join policies p on p.shop_id = r.shop_id and p.version = r.policy_version
 where r.shop_id = $1 and r.id = any($2::bigint[]) and r.state = 'open' and not r.processing
   and (p.policy -> 'review' -> 'missing')::boolean
   and exists (
     select from return_lines l
       join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
      where l.shop_id = r.shop_id and l.return_id = r.id and l.id = any($3::bigint[])
        and l.removed_at is null and d.outcome = 'missing')
 order by r.id`;

/**
 * Puts those open returns into review of which goods are missing and whose policy reviews that. Returns that are queued
 * for processing stay as they are. The caller must have locked the returns.
 *
 * @param o.returnIds the returns whose details an assessment has changed.
 * @param o.lineItemIds the line items that were assessed as missing.
 */
export async function reviewMissingGoods(
  tx: Queryable,
  by: { readonly shopId: bigint; readonly actor: Actor },
  o: { readonly returnIds: readonly bigint[]; readonly lineItemIds: readonly bigint[] },
): Promise<void> {
  if (o.lineItemIds.length === 0 || o.returnIds.length === 0) return;
  const { rows } = await tx.query<{ id: bigint; policy_version: bigint }>({
    name: 'review-missing-goods',
    text: CANDIDATES,
    values: [by.shopId, o.returnIds, o.lineItemIds],
  });
  for (const { id } of rows) {
    const open = { id, state: ReturnState.OPEN, flagReasons: [], processing: false };
    await saveState(tx, by.shopId, new Return(open).flag([MISSING_GOODS]));
  }
  const kind = 'return.flagged';
  await addTimeline(
    tx,
    by,
    rows.map(({ id: returnId, policy_version }) => ({
      returnId,
      kind,
      text: MISSING_GOODS,
      facts: { reasons: MISSING_GOODS, policy_version: `${policy_version}` },
    })),
  );
}
