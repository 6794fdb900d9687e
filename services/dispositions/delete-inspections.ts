import { ConnectError } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { inTransaction } from '../platform/postgres/postgres.ts';
import { reasonOf } from '../platform/values/errors.ts';
import { type KeyUse, releaseKey } from '../platform/values/idempotency.ts';
import type { Inspection } from './inspection.ts';
import { type Lines, lockLines } from './store.ts';

/** Whether returns rejected a handover because it would make the details of a return too large. */
export function isTooLarge(error: unknown): error is ConnectError {
  return error instanceof ConnectError && reasonOf(error) === ErrorReason.RETURN_TOO_LARGE;
}

/**
 * Deletes pending inspections that do not fit into the details of their return. Then the previous inspection of each
 * line item is the newest one again. The idempotency key of the call that recorded them can be used again.
 */
export async function deleteInspections(
  pool: pg.Pool,
  o: Pick<Lines, 'shopId' | 'kind'> & { readonly use?: KeyUse | undefined },
  inspections: readonly Pick<Inspection, 'id' | 'lineItemId'>[],
): Promise<void> {
  const lineItemIds = inspections.map(({ lineItemId }) => lineItemId);
  const ids = inspections.map(({ id }) => id);
  await inTransaction(pool, async (tx) => {
    await lockLines(tx, { ...o, lineItemIds });
    await tx.query(DELETE_INSPECTIONS, [o.shopId, ids]);
    if (o.use) await releaseKey(tx, o.use);
  });
}

const DELETE_INSPECTIONS = `
with removed as (
  delete from handovers where shop_id = $1 and inspection_id = any ($2::bigint[])
  returning inspection_id, kind, line_item_id, former_id
), deleted as (
  delete from inspections i using removed w where i.shop_id = $1 and i.id = w.inspection_id
), later as (
  update handovers h set former_id = w.former_id from removed w
   where h.shop_id = $1 and h.kind = w.kind and h.line_item_id = w.line_item_id
     and h.former_id = w.inspection_id and h.inspection_id <> all ($2::bigint[])
)
update inspected_lines l set inspection_id = w.former_id from removed w
 where l.shop_id = $1 and l.kind = w.kind and l.line_item_id = w.line_item_id
   and l.inspection_id = w.inspection_id`;
