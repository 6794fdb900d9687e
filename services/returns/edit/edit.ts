import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { ReturnAmountsInput } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type Return as Details, Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { EditReturnRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError, invalidField } from '../../platform/errors.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import { isPaidForGood } from '../instant-refunds/instant-refunds-store.ts';
import { exchangeSumsIn, returnSumsIn } from '../money/message-sums.ts';
import { checkedSums } from '../money/return-sums.ts';
import { mayHaveFulfilled } from '../processing/outcomes.ts';
import { outcomesFulfilled, paidForGood } from '../refusals.ts';
import { Return } from '../return.ts';
import { changeReturn } from '../store/change.ts';
import { requireReturnable } from '../submit/returnable.ts';
import { editedLines, lineEdit } from './edit-lines.ts';
import { storeEdit } from './edit-store.ts';

const MAX_CHANGES = 250;

const edit = z.object({
  ...callerShape,
  returnId: id,
  expectedRevision: z.bigint().positive('is required'),
  changes: z.array(lineEdit).max(MAX_CHANGES, `must hold at most ${MAX_CHANGES} changes`),
  outcome: z.enum(Outcome, 'is unknown'),
  amounts: z.custom<ReturnAmountsInput>().optional(),
});

/**
 * Changes lines, outcome or amounts of a return. Absent fields stay as they are. Shipping and the refund are derived
 * from the return after the edit.
 *
 * @throws DomainError INVALID_ARGUMENT (also for an edit without a change and for sums that contradict the outcome);
 *   NOT_FOUND; RETURN_TOO_LARGE; STATE_FORBIDS when the return is not open or in review, is queued for processing, or
 *   has an outcome that a failed run fulfilled or may have, or when the edit removes a line although an instant
 *   refund was paid for good; ABORTED with REVISION_CONFLICT when it changed since it was read.
 */
export async function editReturn(pool: pg.Pool, request: EditReturnRequest): Promise<Details> {
  const wanted = parseInput(edit, request);
  if (wanted.changes.length === 0 && wanted.outcome === Outcome.UNSPECIFIED && !wanted.amounts) {
    throw invalidField('changes', 'must hold at least one change');
  }
  const changed = await changeReturn(pool, { ...wanted, addsInput: true }, async (tx, current) => {
    checkEditable(current, wanted.expectedRevision);
    if (await mayHaveFulfilled(tx, wanted)) throw outcomesFulfilled();
    const freesLines = wanted.changes.some((change) => change.remove);
    if (freesLines && (await isPaidForGood(tx, wanted))) throw paidForGood();
    const currencies = { shop: current.currency, presentment: current.presentmentCurrency };
    const lines = editedLines(current, wanted.changes);
    const kept = lines.filter((line) => !line.removed);
    if (kept.length === 0) throw invalidField('changes', 'must leave at least one line');
    const outcome = wanted.outcome || current.outcome;
    const sums = checkedSums({
      outcome,
      currencies,
      lines: kept.map((line) => line.sums),
      exchanges: exchangeSumsIn(current),
      amounts: wanted.amounts,
      former: returnSumsIn(current),
    });
    await storeEdit(tx, current, { lines, sums, outcome });
    if (wanted.changes.some((change) => change.quantity !== undefined)) {
      await requireReturnable(tx, { ...current, orderId: current.order?.id ?? 0n });
    }
    const facts = { lines: wanted.changes.map((change) => change.lineItemId).join(', ') };
    return {
      value: undefined,
      timeline: [
        { returnId: current.id, kind: 'return.edited', text: 'The return was edited', facts },
      ],
    };
  });
  return changed.return;
}

function checkEditable(current: Details, expectedRevision: bigint): void {
  new Return(current).requireEditable();
  if (current.revision === expectedRevision) return;
  throw new DomainError(
    Code.Aborted,
    ErrorReason.REVISION_CONFLICT,
    `the return is at revision ${current.revision}: read it again`,
    { field: 'expected_revision' },
  );
}
