import { Code, ConnectError } from '@connectrpc/connect';
import { invalidField } from '../platform/errors.ts';
import { deleteInspections, isTooLarge } from './delete-inspections.ts';
import { DISPOSITIONS, type HandOverDeps, handOver, handOverThese } from './hand-over.ts';
import { type Batch, type Recorded, record } from './record.ts';

/**
 * Records findings, and hands them over to returns before it responds. So the caller can read them in returns
 * afterwards.
 *
 * @returns the inspections in the order of the findings. Those of a repeat may lack long texts of a later call.
 * @throws DomainError INVALID_ARGUMENT when a line item does not belong to the shop; RETURN_TOO_LARGE when the details
 *   of a return would become too large: then no finding of the call stays recorded; ConnectError UNAVAILABLE when
 *   returns does not respond: then findings that were recorded are handed over by the loop in `hand-over.ts`, and a
 *   repeated call does not record them again.
 */
export async function inspect(deps: HandOverDeps, batch: Batch): Promise<Recorded> {
  const lineItemIds = batch.findings.map((finding) => finding.lineItemId);
  await requireOwnLines(deps, batch, lineItemIds);
  const recorded = await record(deps.pool, batch);
  try {
    const { created, othersPending } = recorded;
    if (othersPending) await handOver(deps, { ...batch, lineItemIds });
    else await handOverThese(deps, batch, created);
  } catch (error) {
    if (isTooLarge(error)) {
      await deleteInspections(deps.pool, batch, recorded.created);
      throw error;
    }
    const message = 'recorded but not yet applied; retry the call';
    throw new ConnectError(message, Code.Unavailable, undefined, undefined, error);
  }
  return recorded;
}

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
