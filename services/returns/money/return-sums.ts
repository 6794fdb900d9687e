import { Outcome, type ReturnAmountsInput } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { netOf } from '../../platform/values/line-value.ts';
import {
  amountOf,
  type Both,
  type Currencies,
  formatAmount,
  isTooLarge,
} from '../../platform/values/money.ts';
import { snakeCase } from '../../platform/values/text.ts';
import {
  type CheckedSums,
  type ExchangeSums,
  type LineSums,
  lineRefunds,
  type ReturnSums,
  refundOf,
  returnTotalOf,
  shippingOf,
  shippingTaxOf,
  type TotalName,
  type TotalSums,
  totalsOf,
} from './totals.ts';

export interface SumsInput {
  readonly outcome: Outcome;
  readonly currencies: Currencies;
  readonly lines: readonly Both<LineSums>[];
  readonly exchanges: readonly Both<ExchangeSums>[];
  readonly amounts: ReturnAmountsInput | undefined;
  /** The amounts before an edit. They are used for amounts that `amounts` does not have. */
  readonly previous?: Both<Partial<ReturnSums>>;
  /** Whether an edit changes no amount. Then the refunds of the line items are not compared again. */
  readonly keepsAmounts?: boolean;
}

const SIDES = ['shop', 'presentment'] as const;
type Side = (typeof SIDES)[number];

/**
 * Computes and checks the amounts of a return in both currencies.
 *
 * Shipping and its tax are the totals of the line items. The refund is computed so that, in each currency,
 * refund + return credit + handling fee = return total + shipping + credit shipping.
 *
 * @throws DomainError INVALID_ARGUMENT for a computed amount that the request has with another value, for a refund or
 *   total that would be negative, for a computed amount above 10^12 units, and for an outcome that contradicts the
 *   amounts.
 */
export function checkedSums(input: SumsInput): Both<CheckedSums> {
  const submitted = {
    shipping: optional(input, 'shipping'),
    shippingTax: optional(input, 'shippingTax'),
    creditShipping: optional(input, 'creditShipping'),
    returnCredit: optional(input, 'returnCredit'),
    handlingFee: optional(input, 'handlingFee'),
    refund: optional(input, 'refund'),
  };
  return {
    shop: sumsIn(input, submitted, 'shop'),
    presentment: sumsIn(input, submitted, 'presentment'),
  };
}

type SumName = Exclude<keyof CheckedSums, 'returnTotal'>;
type Submitted = Readonly<Record<SumName, Both<bigint> | undefined>>;

function optional(input: SumsInput, name: SumName): Both<bigint> | undefined {
  const amount = input.amounts?.[name];
  if (!amount || (amount.shop === '' && amount.presentment === '')) return undefined;
  return amountOf(`amounts.${snakeCase(name)}`, amount, input.currencies);
}

function sumsIn(input: SumsInput, submitted: Submitted, side: Side): CheckedSums {
  const lines = input.lines.map((line) => line[side]);
  const exchanges = input.exchanges.map((exchange) => exchange[side]);
  const previous = input.previous?.[side];
  // These are never computed. An edit that does not submit one keeps the previous value.
  const sums = {
    creditShipping: submitted.creditShipping?.[side] ?? previous?.creditShipping ?? 0n,
    returnCredit: submitted.returnCredit?.[side] ?? previous?.returnCredit ?? 0n,
    handlingFee: submitted.handlingFee?.[side] ?? previous?.handlingFee ?? 0n,
  };
  const returnTotal = returnTotalOf(lines);
  if (returnTotal < 0n) throw invalidField('lines', 'must not have a negative total');
  const exchangeTotal = exchanges.reduce((sum, exchange) => sum + netOf(exchange), 0n);
  if (exchangeTotal < 0n) throw invalidField('exchanges', 'must not have a negative total');
  const refund = refundOf(lines, sums);
  if (refund < 0n) {
    const rule =
      'plus handling_fee must not exceed the return total plus shipping and credit_shipping';
    throw invalidField('amounts.return_credit', rule);
  }
  const computed = { shipping: shippingOf(lines), shippingTax: shippingTaxOf(lines), refund };
  requireComputed(computed, submitted, { side, currency: input.currencies[side] });
  if (!input.keepsAmounts) {
    requireAgreement(lines, refund - sums.creditShipping, input.currencies[side]);
  }
  const checked = { ...sums, ...computed, returnTotal };
  const totals = totalsOf(lines, exchanges, checked);
  checkBounds(lines, totals, input.currencies[side]);
  checkOutcome(input.outcome, totals, input.exchanges.length);
  return checked;
}

/** Checks amounts that are computed. A request may have such an amount, but only with the computed value. */
function requireComputed(
  computed: Readonly<Record<'shipping' | 'shippingTax' | 'refund', bigint>>,
  submitted: Submitted,
  on: { readonly side: Side; readonly currency: string },
): void {
  for (const name of ['shipping', 'shippingTax', 'refund'] as const) {
    const value = submitted[name]?.[on.side];
    if (value === undefined || value === computed[name]) continue;
    const expected = `${formatAmount(computed[name], on.currency)} ${on.currency}`;
    throw invalidField(
      `amounts.${snakeCase(name)}`,
      `must be ${expected} or omitted (it is computed)`,
    );
  }
}

/**
 * Requires that line items with refunds do not refund less than the return does. They may refund more: credit and fee
 * say which part of it is not refunded.
 */
function requireAgreement(lines: readonly LineSums[], refund: bigint, currency: string): void {
  if (lines.every((line) => line.refundItem === 0n && line.refundTax === 0n)) return;
  const together = lines.reduce((sum, line) => sum + lineRefunds(line).refund, 0n);
  if (together >= refund) return;
  const shown = (minor: bigint) => `${formatAmount(minor, currency)} ${currency}`;
  throw invalidField(
    'lines',
    `refund ${shown(together)} together, but the return refunds ${shown(refund)}: set refund_item and refund_tax of each line item, or say what is not refunded in amounts.return_credit or amounts.handling_fee`,
  );
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
  const invalid = (rule: string) => invalidField('outcome', rule);
  if (WITH_EXCHANGE.has(outcome) && exchangeItems === 0) throw invalid('needs an exchange item');
  if (!WITH_EXCHANGE.has(outcome) && exchangeItems > 0)
    throw invalid('does not allow exchange items');
  if (totals.refund > 0n && outcome !== Outcome.REFUND && outcome !== Outcome.EXCHANGE_REFUND) {
    throw invalid('does not allow a refund, but the refund is above zero');
  }
  if (totals.giftCard > 0n && outcome !== Outcome.CREDIT && outcome !== Outcome.EXCHANGE_CREDIT) {
    throw invalid('does not allow credit, but the return credit exceeds the exchange');
  }
  if (totals.upsell > 0n && outcome !== Outcome.UPSELL) {
    throw invalid('does not allow an upsell, but the exchange exceeds the return credit');
  }
}

/** For each derived amount, the field of the request from which it is computed. */
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
 * Checks that no derived amount is above the limit of one amount, because amounts below the limit may add up to more.
 *
 * @throws DomainError INVALID_ARGUMENT for a derived amount above 10^12 units, with the field from which it is
 *   computed.
 */
function checkBounds(lines: readonly LineSums[], totals: TotalSums, currency: string): void {
  const tooLarge = (field: string) => invalidField(field, 'must not add up to more than 10^12');
  if (lines.some((line) => isTooLarge(lineRefunds(line).refund, currency))) throw tooLarge('lines');
  for (const [name, field] of Object.entries(FIELDS)) {
    // `Object.entries` loses the type of the keys.
    if (isTooLarge(totals[name as TotalName], currency)) throw tooLarge(field);
  }
}
