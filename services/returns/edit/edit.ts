import { z } from 'zod';
import {
  type Return as Details,
  type LineItem,
  LineOutcome,
  Outcome,
  type ReturnAmountsInput,
  UpsellPayment,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type EditReturnRequest,
  EditReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { keyUseOf } from '../../platform/values/idempotency.ts';
import { callerShape, id, parseInput, text } from '../../platform/values/input.ts';
import { netOf } from '../../platform/values/line-value.ts';
import {
  amountColumns,
  amountOf,
  type Both,
  type Currencies,
  minorOf,
} from '../../platform/values/money.ts';
import { lineItemNotFound, requireRevision } from '../errors.ts';
import { amountsOf, quantity } from '../fields.ts';
import { isInstantRefundKept } from '../instant-refunds/instant-refunds-store.ts';
import { exceedsGoods } from '../money/goods-limit.ts';
import { requirePaidShipping } from '../money/paid-shipping.ts';
import { checkedSums } from '../money/return-sums.ts';
import {
  type CheckedSums,
  exchangeSumsIn,
  LINE_AMOUNTS,
  type LineSums,
  lineSumsFrom,
  lineSumsIn,
  requireWithinCost,
  returnSumsIn,
  STORED_RETURN_AMOUNTS,
} from '../money/totals.ts';
import { fulfilmentOf } from '../processing/effect-store.ts';
import { Return, requireUncommitted } from '../return.ts';
import { requireReturnable } from '../returnable.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { storeAmounts } from '../store/store-amounts.ts';
import { lineOutcomeText, outcomeText } from '../store/texts.ts';

const MAX_CHANGES = 250;

/** The edit of one line item. Absent fields keep their values. */
const lineEdit = z.object({
  lineItemId: id,
  remove: z.boolean(),
  quantity: quantity.optional(),
  ...amountsOf(LINE_AMOUNTS),
  reason: text(SHORT_TEXT_MAX).optional(),
  parentReason: text(SHORT_TEXT_MAX).optional(),
  outcome: z.enum(LineOutcome, 'is unknown'),
});
type LineEdit = z.output<typeof lineEdit>;

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
    // An edit that keeps the amounts need not fit limits that are lower now than when they were stored.
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
    await requirePaidGoods(tx, current, { sums, at: kept.find(({ at }) => at !== UNCHANGED)?.at });
    const facts = { lines: input.changes.map((change) => change.lineItemId).join(', ') };
    return {
      value: undefined,
      timeline: [
        { returnId: current.id, kind: 'return.edited', text: 'The return was edited', facts },
      ],
    };
  });
}

/** Rejects an edit that raises the value of the goods above what was paid for them and is left. */
async function requirePaidGoods(
  tx: Queryable,
  current: Details,
  { sums, at = UNCHANGED }: { readonly sums: Both<CheckedSums>; readonly at: string | undefined },
): Promise<void> {
  const { currency, presentmentCurrency, totals, presentmentTotals } = current;
  const isRaised =
    sums.shop.returnTotal > minorOf(totals?.returnTotal ?? '0', currency) ||
    sums.presentment.returnTotal >
      minorOf(presentmentTotals?.returnTotal ?? '0', presentmentCurrency);
  if (!isRaised || !(await exceedsGoods(tx, current))) return;
  const rule = 'minus discount plus tax must not exceed what was paid for the goods and is left';
  throw invalidField(`${at}.price`, rule);
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

/** Writes an edit: the changed line items, the removed ones, and the amounts of the return. */
async function storeEdit(
  tx: Queryable,
  current: Details,
  edit: {
    readonly lines: readonly EditedLine[];
    readonly sums: Both<CheckedSums>;
    readonly outcome: Outcome;
  },
): Promise<void> {
  const currencies = { shop: current.currency, presentment: current.presentmentCurrency };
  const rows = edit.lines
    .filter((line) => !line.removed)
    .map((line) => ({
      id: line.lineItemId.toString(),
      quantity: line.quantity,
      reason: line.reason,
      parent_reason: line.parentReason,
      outcome: lineOutcomeText.toText(line.outcome),
      ...amountColumns(LINE_AMOUNTS, line.sums, currencies),
    }));
  const removed = edit.lines.filter((line) => line.removed).map((line) => line.lineItemId);
  if (removed.length > 0) await removeLines(tx, current, removed);
  const sums = {
    outcome: outcomeText.toText(edit.outcome),
    ...amountColumns(STORED_RETURN_AMOUNTS, edit.sums, currencies),
  };
  await storeAmounts(tx, current, { lines: rows, sums });
}

async function removeLines(tx: Queryable, current: Details, ids: readonly bigint[]): Promise<void> {
  await tx.query(
    `update return_lines set removed_at = clock_timestamp(), live = false
      where shop_id = $1 and return_id = $2 and id = any($3::bigint[])`,
    [current.shopId, current.id, ids],
  );
  await tx.query(
    `update labels
        set line_item_ids = array(
              select line from unnest(line_item_ids) with ordinality as u (line, n)
               where line <> all($3::bigint[]) order by n)
      where shop_id = $1 and return_id = $2 and line_item_ids && $3::bigint[]`,
    [current.shopId, current.id, ids],
  );
}

/** The path of a line item that an edit does not change. */
const UNCHANGED = 'lines';

/** A line item after an edit. */
interface EditedLine {
  /** Path of the line item in the request, or {@link UNCHANGED}. */
  readonly at: string;
  readonly lineItemId: bigint;
  readonly removed: boolean;
  readonly quantity: number;
  readonly reason: string;
  readonly parentReason: string;
  readonly outcome: LineOutcome;
  readonly sums: Both<LineSums>;
}

/**
 * Returns the line items of a return after an edit, in their order. Removed ones are included.
 *
 * @throws DomainError LINE_ITEM_NOT_FOUND for a line item of another return; INVALID_ARGUMENT for a line item that is
 *   in the request twice, or an invalid amount.
 */
function editedLines(current: Details, changes: readonly LineEdit[]): EditedLine[] {
  const byLine = new Map<bigint, { readonly change: LineEdit; readonly at: string }>();
  for (const [n, change] of changes.entries()) {
    const at = `changes[${n}]`;
    if (byLine.has(change.lineItemId))
      throw invalidField(`${at}.line_item_id`, 'is in the request twice');
    byLine.set(change.lineItemId, { change, at });
  }
  const existing = new Set(current.lineItems.map((line) => line.lineItemId));
  if ([...byLine.keys()].some((lineItemId) => !existing.has(lineItemId))) throw lineItemNotFound();
  const currencies = { shop: current.currency, presentment: current.presentmentCurrency };
  return current.lineItems.map((line) => {
    const found = byLine.get(line.lineItemId);
    return found ? applied(line, found, currencies) : unchanged(line, currencies);
  });
}

function unchanged(line: LineItem, currencies: Currencies): EditedLine {
  return {
    at: UNCHANGED,
    lineItemId: line.lineItemId,
    removed: false,
    quantity: line.quantity,
    reason: line.reason,
    parentReason: line.parentReason,
    outcome: line.outcome,
    sums: lineSumsIn(line, currencies),
  };
}

function applied(
  line: LineItem,
  { change, at }: { readonly change: LineEdit; readonly at: string },
  currencies: Currencies,
): EditedLine {
  const before = unchanged(line, currencies);
  const sums = lineSumsFrom(at, (name, field) => {
    const amount = change[name];
    if (amount && (amount.shop !== '' || amount.presentment !== '')) {
      return amountOf(field, amount, currencies);
    }
    return { shop: before.sums.shop[name], presentment: before.sums.presentment[name] };
  });
  if (changesAmounts(change) && !change.remove) requireWithinCost(at, sums, currencies);
  return {
    at,
    lineItemId: line.lineItemId,
    removed: change.remove,
    quantity: change.quantity ?? before.quantity,
    reason: change.reason ?? before.reason,
    parentReason: change.parentReason ?? before.parentReason,
    outcome: change.outcome === LineOutcome.UNSPECIFIED ? before.outcome : change.outcome,
    sums,
  };
}

/** Whether a change has an amount. */
function changesAmounts(change: LineEdit): boolean {
  return LINE_AMOUNTS.some((name) => change[name] !== undefined);
}
