import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { formatAmount, minorOf } from '../money/money.ts';

/** The outcomes that processing requests of the commerce provider, in this order. */
export type OutcomeKind = 'exchange_order' | 'gift_card' | 'refund';

/** One outcome to fulfil. Its amount is in the currency in which the shopper paid. */
export interface Step {
  readonly kind: OutcomeKind;
  /** The same in all runs, retries and edits: the provider acts once for each key. */
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
}

/** The return cannot be processed: it changed after the job was queued, or the job itself is invalid. */
export class NotProcessable extends Error {
  override readonly name = 'NotProcessable';
}

export interface PlanInput {
  readonly details: Return;
  /** An external provider issues gift cards. It gets an event when the return closes. */
  readonly giftCardsAreExternal: boolean;
  /** The total of the instant refunds that the shopper keeps, in minor units of the presentment currency. */
  readonly paidMinor: bigint;
}

/**
 * The outcomes of a return in their fixed order: exchange order, gift card, refund. Outcomes of zero are omitted. All
 * are in the presentment currency, which the shopper sees.
 */
export function planSteps(o: PlanInput): Step[] {
  const { details } = o;
  const currency = details.presentmentCurrency;
  const minor = (text: string | undefined) => minorOf(text ?? '0', currency);
  const totals = details.presentmentTotals;
  const amounts: readonly [OutcomeKind, bigint][] = [
    ['exchange_order', minor(totals?.exchangeTotal)],
    ['gift_card', o.giftCardsAreExternal ? 0n : minor(totals?.giftCard)],
    ['refund', minor(totals?.refund) - o.paidMinor],
  ];
  return amounts
    .filter(([, amount]) => amount > 0n)
    .map(([kind, amount]) => ({
      kind,
      key: keyOf(details.id, kind),
      amount: formatAmount(amount, currency),
      currency,
    }));
}

function keyOf(returnId: bigint, kind: OutcomeKind): string {
  return `rms:return:${returnId}:${kind}`;
}
