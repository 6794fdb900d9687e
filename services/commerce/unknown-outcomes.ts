import { onlyRow } from '../platform/postgres/only-row.ts';
import type { Queryable } from '../platform/postgres/postgres.ts';
import { stateForbids } from '../platform/values/errors.ts';

/**
 * Rejects a change of the provider while an effect has an unknown outcome: only the provider to which it was requested
 * can find it.
 *
 * @throws DomainError STATE_FORBIDS
 */
export async function requireKnownOutcomes(db: Queryable, shopId: bigint): Promise<void> {
  const count = await unknownOutcomes(db, shopId);
  if (count === 0) return;
  throw stateForbids(
    `${count} effects have an unknown outcome, which only the present provider can find: let their returns be processed first`,
  );
}

/**
 * SQL condition: the effect of this row of `processing_outcomes` was requested, and its outcome is unknown. An error of
 * the request that leaves it unknown is one for which `hadNoEffect` in `services/returns/processing/failure.ts` is
 * false. `services/returns/processing/perform.ts` finds out the outcome in the next run.
 */
export const isUnknownOutcome = (row: string): string =>
  `${row}.asked_at is not null and ${row}.done_at is null`;

/** Returns the number of a shop's effects that were requested and have no known outcome. */
export async function unknownOutcomes(db: Queryable, shopId: bigint): Promise<number> {
  const result = await db.query<{ count: number }>(
    `select count(*)::int as count from processing_outcomes o
      where shop_id = $1 and ${isUnknownOutcome('o')}`,
    [shopId],
  );
  return onlyRow(result).count;
}
