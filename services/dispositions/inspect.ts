import { Code, ConnectError } from '@connectrpc/connect';
import { invalidField } from '../platform/errors.ts';
import { DISPOSITIONS, type HandOverDeps, handOver, handOverThese } from './hand-over.ts';
import type { Inspection } from './inspection.ts';
import { type Batch, record } from './record.ts';
import { isTooLarge, withdraw } from './withdraw.ts';

/**
 * Records findings and hands them over to returns before it answers, so that the caller finds them there. Answers in
 * the order of the findings.
 *
 * @throws DomainError INVALID_ARGUMENT when a line does not belong to the shop; RETURN_TOO_LARGE when the details of
 *   a return would become too large, and then no finding of the call stays recorded; ConnectError UNAVAILABLE when
 *   returns does not answer, also after the findings were recorded. Then a repeated call does not record them again,
 *   and a job hands them over in any case.
 */
export async function inspect(deps: HandOverDeps, batch: Batch): Promise<readonly Inspection[]> {
  const lineItemIds = batch.findings.map((finding) => finding.lineItemId);
  await requireOwnLines(deps, batch, lineItemIds);
  const recorded = await record(deps.pool, batch);
  try {
    const { news, othersPending } = recorded;
    if (othersPending) await handOver(deps, { ...batch, lineItemIds });
    else await handOverThese(deps, batch, news);
  } catch (error) {
    if (isTooLarge(error)) {
      await withdraw(deps.pool, batch, recorded.news);
      throw error;
    }
    const message = 'recorded, but not yet taken over by returns: repeat the call';
    throw new ConnectError(message, Code.Unavailable, undefined, undefined, error);
  }
  return recorded.inspections;
}

/** Refuses lines that do not exist and lines of other shops in the same way. */
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
  if (index >= 0) throw invalidField(`items[${index}].line_item_id`, 'names no line item');
}
