import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { claimKey, type KeyUse } from '../../platform/idempotency.ts';
import { committing } from '../../platform/postgres.ts';
import { returnNotFound } from '../refusals.ts';
import { type Change, type Changer, changeReturnIn } from './change.ts';
import { loadForChange } from './load.ts';
import { changing } from './transaction.ts';

/**
 * Changes a return once per idempotency key; a repeat answers the return as it is now. Without a key it changes it
 * in any case.
 *
 * @throws DomainError RETURN_NOT_FOUND; IDEMPOTENCY_CONFLICT when the key was used with other content.
 */
export async function changeReturnOnce(
  pool: pg.Pool,
  by: Changer & { readonly returnId: bigint },
  use: KeyUse | undefined,
  work: (tx: pg.PoolClient, current: Return) => Promise<Change<void>>,
): Promise<Return> {
  return changing(pool, by.shopId, async (tx) => {
    if (await claimKey(tx, use, by.returnId)) {
      return (await changeReturnIn(tx, by, work, committing)).return;
    }
    const [current] = await loadForChange(tx, by.shopId, [by.returnId]);
    if (!current) throw returnNotFound();
    return current;
  });
}
