import { Code, ConnectError } from '@connectrpc/connect';
import { invalidField } from '../platform/errors.ts';
import { deleteInspections, isTooLarge } from './delete-inspections.ts';
import { DISPOSITIONS, type HandOverDeps, handOverEarlier, handOverThese } from './hand-over.ts';
import type { Inspection } from './inspection.ts';
import { type Batch, type Recorded, record } from './record.ts';
import { areStored } from './store.ts';

/**
 * Records findings, and hands them over to returns before it responds. So the caller can read them in returns
 * afterwards.
 *
 * @returns the inspections in the order of the findings. Those of a repeat may lack long texts of a later call.
 * @throws DomainError INVALID_ARGUMENT when a line item does not belong to the shop; RETURN_TOO_LARGE when the details
 *   of a return would become too large: then no finding of the call stays recorded, except repeated ones that returns
 *   has accepted; ConnectError UNAVAILABLE when returns does not respond: then findings that were recorded are handed
 *   over by the loop in `hand-over.ts`, and a repeated call does not record them again.
 */
export async function inspect(deps: HandOverDeps, batch: Batch): Promise<Recorded> {
  await requireOwnLines(deps, batch, lineItemIdsOf(batch));
  const recorded = await record(deps.pool, batch);
  try {
    if (await handOverAll(deps, batch, recorded)) return recorded;
  } catch (error) {
    if (isTooLarge(error)) throw error;
    const message = 'recorded but not yet applied; retry the call';
    throw new ConnectError(message, Code.Unavailable, undefined, undefined, error);
  }
  return inspect(deps, batch);
}

/**
 * Hands over the findings of a call, after those of earlier calls. Returns gets all new findings in one call, so it
 * stores all of them or none. It gets the repeated ones before the new ones: if it has them already, because only the
 * response to the earlier call was lost, they must stay.
 *
 * @returns false when a repeated finding was deleted in the meantime, because it did not fit. Then no finding of the
 *   call is recorded.
 */
async function handOverAll(deps: HandOverDeps, batch: Batch, recorded: Recorded): Promise<boolean> {
  const { created, repeated, othersPending } = recorded;
  const remove = (some: readonly Inspection[]) => deleteInspections(deps.pool, batch, some);
  const orRemove = async <T>(work: Promise<T>, some: readonly Inspection[]): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (isTooLarge(error)) await remove(some);
      throw error;
    }
  };
  if (othersPending) {
    const lines = { ...batch, lineItemIds: lineItemIdsOf(batch) };
    const pending = await orRemove(handOverEarlier(deps, lines, recorded), created);
    if (!(await areStored(deps.pool, batch.shopId, [...repeated, ...created]))) {
      await remove(created);
      return false;
    }
    await orRemove(handOverThese(deps, batch, pending), [...pending, ...created]);
  }
  await orRemove(handOverThese(deps, batch, created), created);
  return true;
}

const lineItemIdsOf = ({ findings }: Batch) => findings.map(({ lineItemId }) => lineItemId);

/**
 * Rejects line items that the shop does not have. The error is the same for line items that do not exist and for those
 * of other shops.
 */
async function requireOwnLines(
  { returns }: HandOverDeps,
  { shopId }: Batch,
  lineItemIds: readonly bigint[],
): Promise<void> {
  const { owners } = await returns.checkLineItems({
    shopId,
    actor: DISPOSITIONS,
    lineItemIds: [...lineItemIds],
  });
  const own = new Set(owners.map((owner) => owner.lineItemId));
  const index = lineItemIds.findIndex((lineItemId) => !own.has(lineItemId));
  if (index >= 0) {
    throw invalidField(`items[${index}].line_item_id`, 'must be the id of an existing line item');
  }
}
