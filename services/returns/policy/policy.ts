import {
  type AutomaticProcessing,
  AutomaticProcessing_Moment as Moment,
  type Policy,
  type PolicyFee,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  type Label,
  LabelStatus,
  type LineItem,
  Outcome,
  type Return,
  type ReturnMethod,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type Both,
  type Currencies,
  formatAmount,
  inBoth,
  minorOf,
} from '../../platform/values/money.ts';
import { returnSumsIn } from '../money/totals.ts';

// The rules of a policy about a whole return. `eligibility.ts` has those about the lines of an order. No rule reads or
// writes the database. Amounts are in minor units.

/** What the fee of a return depends on. */
export interface FeeFacts {
  readonly returnMethod: ReturnMethod;
  readonly outcome: Outcome;
  /** Whether the exchange items cost more than all that comes back, before the fee. */
  readonly isDearer: boolean;
  /** The reason of each line item. */
  readonly reasons: readonly string[];
  readonly currencies: Currencies;
  /** The net value of the returned goods. */
  readonly goods: Both<bigint>;
  /** One amount of the order in both currencies, which gives the rate of conversion. `goods` when absent. */
  readonly rate?: Both<bigint>;
  /** Refund and credit together, before the fee. */
  readonly payable: Both<bigint>;
}

/**
 * Returns the fee of a return: that of the first entry with its method and outcome. An exchange for something dearer
 * has the outcome UPSELL, too. The fee is zero without an entry, and when the reason of each line item waives the fee. A percentage is of the goods, and an amount is converted by the
 * rate of the order, each rounded half up. The fee is at most refund and credit together.
 */
export function feeOf(policy: Policy, facts: FeeFacts): Both<bigint> {
  const { reasons, payable } = facts;
  const waiving = new Set(policy.reasons.filter((one) => one.waivesFee).map(({ code }) => code));
  if (reasons.length > 0 && reasons.every((code) => waiving.has(code))) return NOTHING;
  const entry = policy.fees.find(
    (one) =>
      (one.returnMethod === 0 || one.returnMethod === facts.returnMethod) &&
      (one.outcome === 0 ||
        one.outcome === facts.outcome ||
        (one.outcome === Outcome.UPSELL && facts.isDearer)),
  );
  const fee = entry ? uncappedFee(entry, facts) : NOTHING;
  // Rounding may reach the limit in one currency only. Then nothing is paid in the other one either.
  const isAll = fee.shop >= payable.shop || fee.presentment >= payable.presentment;
  return isAll ? payable : fee;
}

const NOTHING: Both<bigint> = { shop: 0n, presentment: 0n };
/** Hundredths of a percent in one. */
const PARTS = 10_000n;

function uncappedFee({ fee }: PolicyFee, facts: FeeFacts): Both<bigint> {
  const { goods, rate = goods, currencies } = facts;
  switch (fee.case) {
    case undefined:
      return NOTHING;
    case 'percentage': {
      const [whole = '0', fraction = ''] = fee.value.split('.');
      const parts = BigInt(whole + fraction.padEnd(2, '0'));
      return inBoth((side) => halfUp(goods[side] * parts, PARTS));
    }
    case 'amount': {
      // An order that cost nothing has no rate, and nothing to keep.
      return converted(minorOf(fee.value, currencies.shop), { rate, currencies }) ?? NOTHING;
    }
    default:
      return fee satisfies never;
  }
}

/**
 * Converts an amount of the shop's currency, half up to the minor unit.
 *
 * @param o.rate one amount of the order in both currencies.
 * @returns undefined for an order that cost nothing, which has no rate.
 */
export function converted(
  shop: bigint,
  { rate, currencies }: { readonly rate: Both<bigint>; readonly currencies: Currencies },
): Both<bigint> | undefined {
  if (currencies.shop === currencies.presentment) return { shop, presentment: shop };
  if (rate.shop === 0n) return undefined;
  return { shop, presentment: halfUp(shop * rate.presentment, rate.shop) };
}

/** Divides numbers that are not negative. */
function halfUp(dividend: bigint, divisor: bigint): bigint {
  return (2n * dividend + divisor) / (2n * divisor);
}

/** What the review of a new return depends on. */
export interface ReviewFacts {
  /** The net value of the returned goods, in the shop's currency. */
  readonly goods: bigint;
  /** The shop's currency. */
  readonly currency: string;
  /** The reason of each line item. */
  readonly reasons: readonly string[];
  /** Returns of the shopper in the policy's days, the new one included; 0 when the shopper is not known. */
  readonly returnsOfShopper: number;
  readonly hasFraudReport: boolean;
}

/** The flag reason of a return of which goods did not come. */
export const MISSING_GOODS = 'Goods are missing';
const FRAUD = 'This e-mail address has a fraud report';

/** Returns the flag reasons of a new return: one for each condition that it meets. Without any, it is not reviewed. */
export function reviewReasons({ review }: Policy, facts: ReviewFacts): string[] {
  if (!review) return [];
  const { valueAbove, returnsAbove, returnsDays } = review;
  const { currency } = facts;
  const limit = valueAbove === '' ? undefined : minorOf(valueAbove, currency);
  const reasons = review.reasons.filter((reason) => facts.reasons.includes(reason));
  const found: string[] = [];
  if (limit !== undefined && facts.goods > limit) {
    found.push(`The goods are worth more than ${formatAmount(limit, currency)} ${currency}`);
  }
  if (reasons[0] !== undefined) found.push(reasonsText(reasons[0], reasons.length));
  if (returnsAbove > 0 && facts.returnsOfShopper > returnsAbove) {
    const days = returnsDays === 1 ? 'day' : 'days';
    found.push(
      `More than ${returnsAbove} returns of this e-mail address in ${returnsDays} ${days}`,
    );
  }
  if (review.fraudReport && facts.hasFraudReport) found.push(FRAUD);
  return found;
}

/** Maximum length of the reason that a flag reason names. Characters. */
const SHOWN_REASON = 100;

function reasonsText(first: string, count: number): string {
  const text = `A line item has the reason ${[...first].slice(0, SHOWN_REASON).join('')}`;
  return count > 1 ? `${text}, and others are to be reviewed, too` : text;
}

/**
 * Whether the policy processes a return now: it is open, its moment has come, and refund and credit together are at
 * most the upper amount. Returns in review are not open.
 */
export function processesAt(rule: AutomaticProcessing, details: Return): boolean {
  if (details.state !== ReturnState.OPEN || !hasCome(rule.moment, progressOf(details))) {
    return false;
  }
  if (rule.upTo === '') return true;
  const { refund, returnCredit } = returnSumsIn(details).shop;
  return refund + returnCredit <= minorOf(rule.upTo, details.currency);
}

/** What says whether a moment has come. */
export interface Progress {
  readonly lineItems: readonly LineProgress[];
  readonly labels: readonly Pick<Label, 'lineItemIds' | 'status'>[];
}

interface LineProgress {
  readonly lineItemId: bigint;
  /** Whether all units have arrived. */
  readonly hasArrived: boolean;
  readonly isGraded: boolean;
}

/** Returns the progress of a return. */
export function progressOf({ lineItems, labels }: Return): Progress {
  const lines = lineItems.map(({ lineItemId, condition, ...line }) => ({
    lineItemId,
    hasArrived: hasArrived({ ...line, isReturned: line.returnedAt !== undefined }),
    isGraded: condition?.grade !== undefined || condition?.categoryName !== undefined,
  }));
  return { lineItems: lines, labels };
}

/**
 * Whether all units of a line item have arrived. One that is returned and has no units was reported as a whole.
 *
 * @param line.isReturned whether it has `returned_at`.
 */
export function hasArrived(
  line: Pick<LineItem, 'arrivedQuantity' | 'quantity'> & { readonly isReturned: boolean },
): boolean {
  const { arrivedQuantity: arrived, quantity, isReturned } = line;
  return arrived === 0 ? isReturned : arrived >= quantity;
}

/**
 * Whether a moment has come. Goods that have arrived were delivered and in transit, also when the carrier reports
 * nothing. A moment has come when it has come for each line item.
 */
export function hasCome(moment: Moment, { lineItems, labels }: Progress): boolean {
  const inParcel = (line: LineProgress, statuses: readonly LabelStatus[]) =>
    labels.some(
      ({ lineItemIds, status }) =>
        lineItemIds.includes(line.lineItemId) && statuses.includes(status),
    );
  const each = (has: (line: LineProgress) => boolean) =>
    lineItems.length > 0 && lineItems.every(has);
  switch (moment) {
    case Moment.IN_TRANSIT:
      return each((line) => line.hasArrived || inParcel(line, IN_TRANSIT));
    case Moment.DELIVERED:
      return each((line) => line.hasArrived || inParcel(line, DELIVERED));
    case Moment.ARRIVED:
      return each((line) => line.hasArrived);
    case Moment.GRADED:
      return each((line) => line.isGraded);
    default:
      return false;
  }
}

const DELIVERED: readonly LabelStatus[] = [LabelStatus.DELIVERED];
const IN_TRANSIT: readonly LabelStatus[] = [
  LabelStatus.IN_TRANSIT,
  LabelStatus.OUT_FOR_DELIVERY,
  ...DELIVERED,
];
