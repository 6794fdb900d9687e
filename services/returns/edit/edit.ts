import { z } from 'zod';
import type { ReturnAmountsInput } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type Return as Details,
  Outcome,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type EditReturnRequest,
  EditReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import { keyUseOf } from '../../platform/idempotency.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import { netOf } from '../../platform/line-value.ts';
import type { Both } from '../../platform/money.ts';
import { requireRevision } from '../errors.ts';
import { isInstantRefundKept } from '../instant-refunds/instant-refunds-store.ts';
import { requirePaidShipping } from '../money/paid-shipping.ts';
import { checkedSums } from '../money/return-sums.ts';
import { type CheckedSums, exchangeSumsIn, returnSumsIn } from '../money/totals.ts';
import { fulfilmentOf } from '../processing/fulfilment.ts';
import { Return, requireUncommitted } from '../return.ts';
import { requireReturnable } from '../returnable.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { changesAmounts, type EditedLine, editedLines, lineEdit, UNCHANGED } from './edit-lines.ts';
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
 * Changes line items, the outcome or amounts of a return. Absent fields keep their values. Shipping and the refund are
 * computed again.
 *
 * @throws DomainError INVALID_ARGUMENT (also for an edit without a change, and for amounts that contradict the
 *   outcome); NOT_FOUND; IDEMPOTENCY_CONFLICT; RETURN_TOO_LARGE; STATE_FORBIDS, see return.ts; ABORTED with
 *   REVISION_CONFLICT when the return changed after the caller had read it.
 */
export async function editReturn(store: ReturnStore, request: EditReturnRequest): Promise<Details> {
  const input = parseInput(edit, request);
  if (input.changes.length === 0 && input.outcome === Outcome.UNSPECIFIED && !input.amounts) {
    throw invalidField('changes', 'must hold at least one change');
  }
  const use = keyUseOf('EditReturn', EditReturnRequestSchema, request);
  return store.changeOnce({ ...input, addsInput: true }, use, async (tx, current) => {
    new Return(current).requireEditable();
    requireRevision(current, input.expectedRevision);
    const commitments = {
      fulfilment: await fulfilmentOf(tx, input),
      instantRefundKept: await isInstantRefundKept(tx, input),
    };
    requireUncommitted(commitments, { freesLines: input.changes.some(({ remove }) => remove) });
    const currencies = { shop: current.currency, presentment: current.presentmentCurrency };
    const lines = editedLines(current, input.changes);
    const kept = lines.filter((line) => !line.removed);
    if (kept.length === 0) throw invalidField('changes', 'must keep at least one line item');
    const outcome = input.outcome || current.outcome;
    const { changes, amounts } = input;
    // An edit without amounts is accepted for amounts that are older than their limits, too.
    const keepsAmounts = !amounts && !changes.some((one) => one.remove || changesAmounts(one));
    const sums = checkedSums({
      outcome,
      currencies,
      lines: kept.map((line) => line.sums),
      exchanges: exchangeSumsIn(current),
      amounts,
      previous: returnSumsIn(current),
      keepsAmounts,
    });
    requirePrepaidUpsell(current, sums);
    await storeEdit(tx, current, { lines, sums, outcome });
    if (input.changes.some((change) => change.quantity !== undefined)) {
      await requireReturnable(tx, current);
    }
    if (!keepsAmounts) await requirePaidShipping(tx, current, { lines: changedLast(kept), sums });
    const facts = { lines: input.changes.map((change) => change.lineItemId).join(', ') };
    return {
      value: undefined,
      timeline: [
        { returnId: current.id, kind: 'return.edited', text: 'The return was edited', facts },
      ],
    };
  });
}

/** Sorts the line items, so that an error about their sum names one that the request changes. */
function changedLast(lines: readonly EditedLine[]): EditedLine[] {
  const isKept = ({ at }: EditedLine) => at === UNCHANGED;
  return [...lines.filter(isKept), ...lines.filter((line) => !isKept(line))];
}

/** Rejects another upsell than the shopper has paid in advance: nobody would ask for the difference, or pay it back. */
function requirePrepaidUpsell(current: Details, sums: Both<CheckedSums>): void {
  if (current.upsellPayment !== UpsellPayment.PREPAID) return;
  const before = returnSumsIn(current);
  const exchanges = exchangeSumsIn(current);
  for (const side of ['shop', 'presentment'] as const) {
    const total = exchanges.reduce((sum, one) => sum + netOf(one[side]), 0n);
    const upsellAt = (credit: bigint) => (total > credit ? total - credit : 0n);
    if (upsellAt(sums[side].returnCredit) === upsellAt(before[side].returnCredit)) continue;
    const rule = 'must not change the upsell, which the shopper has paid: cancel and submit again';
    throw invalidField('amounts.return_credit', rule);
  }
}
