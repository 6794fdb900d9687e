import type { ReturnAmountsInput } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import { RETURN_AMOUNTS } from '../fields/amounts.ts';
import { columnOf } from '../fields/field.ts';
import { amountOf, type Both, type Currencies } from './amounts.ts';
import { formatAmount, isTooLarge } from './money.ts';
import {
  type ExchangeSums,
  type LineSums,
  lineRefunds,
  netOf,
  type ReturnSums,
  refundOf,
  returnTotalOf,
  shippingOf,
  shippingTaxOf,
  type TotalName,
  type TotalSums,
  totalsOf,
} from './totals.ts';

/** The stored sums of a return: its own, and the sums of its lines that a constraint of the table uses. */
export const STORED_RETURN_AMOUNTS = [
  ...RETURN_AMOUNTS,
  'returnTotal',
  'shipping',
  'shippingTax',
] as const;

/** The sums of a whole return in one currency. */
export type CheckedSums = Readonly<Record<(typeof STORED_RETURN_AMOUNTS)[number], bigint>>;

export interface SumsInput {
  readonly outcome: Outcome;
  readonly currencies: Currencies;
  readonly lines: readonly Both<LineSums>[];
  readonly exchanges: readonly Both<ExchangeSums>[];
  readonly amounts: ReturnAmountsInput | undefined;
  /** The sums before an edit; they stay where `amounts` has none. */
  readonly former?: Both<Partial<ReturnSums>>;
}

const SIDES = ['shop', 'presentment'] as const;
type Side = (typeof SIDES)[number];

/**
 * Completes and checks the sums of a return in both currencies.
 *
 * Shipping and its tax are the sums of the lines' shipping and shipping tax. The refund is filled so
 * that, in each currency, refund + return credit + handling fee = return total + shipping + credit
 * shipping.
 *
 * @throws DomainError INVALID_ARGUMENT for a derived sum that is given with another value,
 *   for a refund or total that would be negative, for a derived sum above 10^12 units, and for an
 *   outcome that contradicts the sums.
 */
export function checkedSums(input: SumsInput): Both<CheckedSums> {
  const given = {
    shipping: optional(input, 'shipping'),
    shippingTax: optional(input, 'shippingTax'),
    creditShipping: optional(input, 'creditShipping'),
    returnCredit: optional(input, 'returnCredit'),
    handlingFee: optional(input, 'handlingFee'),
    refund: optional(input, 'refund'),
  };
  return { shop: sumsOn(input, given, 'shop'), presentment: sumsOn(input, given, 'presentment') };
}

type SumName = Exclude<keyof CheckedSums, 'returnTotal'>;
type Given = Readonly<Record<SumName, Both<bigint> | undefined>>;

function optional(input: SumsInput, name: SumName): Both<bigint> | undefined {
  const amount = input.amounts?.[name];
  if (!amount || (amount.shop === '' && amount.presentment === '')) return undefined;
  return amountOf(`amounts.${columnOf(name)}`, amount, input.currencies);
}

function sumsOn(input: SumsInput, given: Given, side: Side): CheckedSums {
  const lines = input.lines.map((line) => line[side]);
  const exchanges = input.exchanges.map((exchange) => exchange[side]);
  const former = input.former?.[side];
  const sums = {
    creditShipping: given.creditShipping?.[side] ?? former?.creditShipping ?? 0n,
    returnCredit: given.returnCredit?.[side] ?? former?.returnCredit ?? 0n,
    handlingFee: given.handlingFee?.[side] ?? former?.handlingFee ?? 0n,
  };
  const returnTotal = returnTotalOf(lines);
  if (returnTotal < 0n) throw invalidField('lines', 'must not sum up to a negative total');
  const exchangeTotal = exchanges.reduce((sum, exchange) => sum + netOf(exchange), 0n);
  if (exchangeTotal < 0n) throw invalidField('exchanges', 'must not sum up to a negative total');
  const refund = refundOf(lines, sums);
  if (refund < 0n) {
    const rule = 'and the handling fee together exceed what is returned';
    throw invalidField('amounts.return_credit', rule);
  }
  const followed = { shipping: shippingOf(lines), shippingTax: shippingTaxOf(lines), refund };
  requireFollowed(followed, given, { side, currency: input.currencies[side] });
  const checked = { ...sums, ...followed, returnTotal };
  const totals = totalsOf(lines, exchanges, checked);
  checkBounds(lines, totals, input.currencies[side]);
  checkOutcome(input.outcome, totals, input.exchanges.length);
  return checked;
}

/** A caller may give a derived sum, but only with the value that follows from the other sums. */
function requireFollowed(
  followed: Readonly<Record<'shipping' | 'shippingTax' | 'refund', bigint>>,
  given: Given,
  on: { readonly side: Side; readonly currency: string },
): void {
  for (const name of ['shipping', 'shippingTax', 'refund'] as const) {
    const value = given[name]?.[on.side];
    if (value === undefined || value === followed[name]) continue;
    const expected = `${formatAmount(followed[name], on.currency)} ${on.currency}`;
    throw invalidField(`amounts.${columnOf(name)}`, `must be ${expected}, or absent to be filled`);
  }
}

const WITH_EXCHANGE: ReadonlySet<Outcome> = new Set([
  Outcome.EXCHANGE,
  Outcome.UPSELL,
  Outcome.EXCHANGE_REFUND,
  Outcome.EXCHANGE_CREDIT,
]);

function checkOutcome(
  outcome: Outcome,
  totals: { readonly refund: bigint; readonly giftCard: bigint; readonly upsell: bigint },
  exchangeItems: number,
): void {
  const refuse = (rule: string) => invalidField('outcome', rule);
  if (WITH_EXCHANGE.has(outcome) && exchangeItems === 0) throw refuse('needs an exchange item');
  if (!WITH_EXCHANGE.has(outcome) && exchangeItems > 0) throw refuse('has no exchange items');
  if (totals.refund > 0n && outcome !== Outcome.REFUND && outcome !== Outcome.EXCHANGE_REFUND) {
    throw refuse('allows no refund, but the refund is above zero');
  }
  if (totals.giftCard > 0n && outcome !== Outcome.CREDIT && outcome !== Outcome.EXCHANGE_CREDIT) {
    throw refuse('allows no credit, but the return credit exceeds the exchange');
  }
  if (totals.upsell > 0n && outcome !== Outcome.UPSELL) {
    throw refuse('allows no upsell, but the exchange exceeds the return credit');
  }
}

/** The field whose parts add up to each derived sum. */
const FIELDS: Readonly<Record<TotalName, string>> = {
  total: 'lines',
  returnProductTotal: 'lines',
  returnDiscountTotal: 'lines',
  returnTaxTotal: 'lines',
  returnTotal: 'lines',
  refundShippingTotal: 'lines',
  refundShippingTaxTotal: 'lines',
  returnShippingTotal: 'lines',
  returnShippingTaxTotal: 'lines',
  creditShippingTotal: 'amounts.credit_shipping',
  returnCreditTotal: 'amounts.return_credit',
  handlingFee: 'amounts.handling_fee',
  exchangeProductTotal: 'exchanges',
  exchangeDiscountTotal: 'exchanges',
  exchangeTaxTotal: 'exchanges',
  exchangeTotal: 'exchanges',
  exchangeCreditTotal: 'amounts.return_credit',
  upsell: 'exchanges',
  giftCard: 'amounts.return_credit',
  refund: 'amounts.refund',
};

/**
 * Checks derived sums against the limit of given sums, because sums within the limit may add up to more.
 *
 * @throws DomainError INVALID_ARGUMENT for a derived sum above 10^12 units, naming the field that it
 *   is derived from.
 */
function checkBounds(lines: readonly LineSums[], totals: TotalSums, currency: string): void {
  const refuse = (field: string) => invalidField(field, 'must not sum up to more than 10^12');
  if (lines.some((line) => isTooLarge(lineRefunds(line).refund, currency))) throw refuse('lines');
  for (const [name, field] of Object.entries(FIELDS)) {
    // The entries of FIELDS have its keys.
    if (isTooLarge(totals[name as TotalName], currency)) throw refuse(field);
  }
}
