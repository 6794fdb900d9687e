import { z } from 'zod';
import {
  type LineItem,
  LineOutcome,
  type Return,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { invalidField } from '../../platform/errors.ts';
import { id, text } from '../../platform/input.ts';
import { amountOf, type Both, type Currencies } from '../../platform/money.ts';
import { lineItemNotFound } from '../errors.ts';
import { amountsOf, quantity } from '../fields.ts';
import {
  LINE_AMOUNTS,
  type LineSums,
  lineSumsFrom,
  lineSumsIn,
  requireWithinCost,
} from '../money/totals.ts';

/** The edit of one line item. Absent fields keep their values. */
export const lineEdit = z.object({
  lineItemId: id,
  remove: z.boolean(),
  quantity: quantity.optional(),
  ...amountsOf(LINE_AMOUNTS),
  reason: text(SHORT_TEXT_MAX).optional(),
  parentReason: text(SHORT_TEXT_MAX).optional(),
  outcome: z.enum(LineOutcome, 'is unknown'),
});
type LineEdit = z.output<typeof lineEdit>;

/** The path of a line item that an edit does not change. */
export const UNCHANGED = 'lines';

/** A line item after an edit. */
export interface EditedLine {
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
export function editedLines(current: Return, changes: readonly LineEdit[]): EditedLine[] {
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
export function changesAmounts(change: LineEdit): boolean {
  return LINE_AMOUNTS.some((name) => change[name] !== undefined);
}
