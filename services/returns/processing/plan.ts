import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { EffectKind } from '../../commerce/provider.ts';
import { formatAmount, minorOf } from '../../platform/values/money.ts';

/**
 * One effect for a return, as a plan has it. Its amount is in the currency in which the shopper paid. It is `0` when
 * the effect moves no money.
 */
export interface PlannedStep {
  readonly kind: EffectKind;
  /**
   * The key is the same in all runs, retries and edits, because the provider makes one effect for each key. It has a
   * random value of the return. So a return has a key of its own even when the database was promoted or restored without
   * the last commits, and gives the id of a lost return again.
   */
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
}

/** One effect that a run must request. */
export interface Step extends PlannedStep {
  /**
   * For a step that was requested of the provider and has no recorded result: when, at the last time, as in
   * `OpenRequest`. Undefined when the step was not requested.
   */
  readonly askedAt: string | undefined;
  /**
   * How long ago its oldest request was sent, by the clock of the database. Undefined when the step was not requested. A
   * repeat does not renew it. Milliseconds.
   */
  readonly oldestRequestMsAgo: number | undefined;
  /**
   * The number of events that the provider had reported about the order when the step was planned (column
   * `provider_news` of the return). Undefined when one of these events may stop payments. Then each request is checked
   * again.
   */
  readonly newsAtPlan: number | undefined;
  /** The commerce connection of the shop when the step was planned, see `connectedTo`; null when there was none. */
  readonly connectionAtPlan: string | null;
}

/** Values from the time when the steps of a run were planned. They must still be true when a step is requested. */
export type AtPlan = Pick<Step, 'newsAtPlan' | 'connectionAtPlan'>;

/** The return cannot be processed: it changed after the job was queued, or the job itself is invalid. */
export class NotProcessable extends Error {
  override readonly name = 'NotProcessable';
}

/** The shop got another commerce provider after the run began. The next run plans with the new provider. */
export class ProviderChanged extends Error {
  override readonly name = 'ProviderChanged';
}

export interface PlanInput {
  readonly details: Return;
  /** See {@link KeyedReturn}. */
  readonly nonce: string;
  /** Whether an external provider issues gift cards. It gets an event when the return is closed. */
  readonly giftCardsAreExternal: boolean;
  /** The total of the instant refunds that the shopper keeps, in minor units of the presentment currency. */
  readonly paidMinor: bigint;
  /** Whether the commerce provider restocks goods of the return. */
  readonly hasRestock: boolean;
}

/**
 * Returns the effects for a return in their fixed order: exchange order, gift card, refund, restock. Effects with an
 * amount of zero are left out, except a restock, which moves no money. All amounts are in the presentment currency,
 * which the shopper sees.
 */
export function planSteps(o: PlanInput): PlannedStep[] {
  const { details } = o;
  const currency = details.presentmentCurrency;
  const minor = (text: string | undefined) => minorOf(text ?? '0', currency);
  const totals = details.presentmentTotals;
  const amounts: readonly [EffectKind, bigint][] = [
    ['exchange_order', minor(totals?.exchangeTotal)],
    ['gift_card', o.giftCardsAreExternal ? 0n : minor(totals?.giftCard)],
    ['refund', minor(totals?.refund) - o.paidMinor],
  ];
  const stepOf = (kind: EffectKind, amount: string): PlannedStep => ({
    kind,
    key: keyOf({ returnId: details.id, nonce: o.nonce }, kind),
    amount,
    currency,
  });
  const payments = amounts
    .filter(([, amount]) => amount > 0n)
    .map(([kind, amount]) => stepOf(kind, formatAmount(amount, currency)));
  return o.hasRestock ? [...payments, stepOf('restock', '0')] : payments;
}

/** The values of a return that the keys of its effects are made of. */
interface KeyedReturn {
  readonly returnId: bigint;
  /** A random value that the return has got with its id. */
  readonly nonce: string;
}

/** Returns the step that cancels the exchange order of a return. No plan contains it. */
export function cancellationStep(of: KeyedReturn, currency: string): PlannedStep {
  const kind = 'order_cancel';
  return { kind, key: keyOf(of, kind), amount: '0', currency };
}

function keyOf({ returnId, nonce }: KeyedReturn, kind: EffectKind): string {
  return ['rms:return', returnId, nonce, kind].join(':');
}
