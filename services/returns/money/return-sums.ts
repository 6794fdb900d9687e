import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnAmountsInput } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import type { Currencies } from '../store/line-message.ts';
import { amountOf, type Both } from './amounts.ts';
import { checkBounds } from './bounds.ts';
import { formatAmount } from './money.ts';
import {
  type ExchangeSums,
  type LineSums,
  netOf,
  type ReturnSums,
  refundOf,
  returnTotalOf,
  totalsOf,
} from './totals.ts';

/** The sums of a whole return in one currency, with the operand that the rule of the table needs. */
export interface CheckedSums extends ReturnSums {
  readonly returnTotal: bigint;
}

export interface SumsInput {
  readonly outcome: Outcome;
  readonly currencies: Currencies;
  readonly lines: readonly Both<LineSums>[];
  readonly exchanges: readonly Both<ExchangeSums>[];
  readonly amounts: ReturnAmountsInput | undefined;
  /** Sums that stay where `amounts` says nothing; shipping among them only if it was given. */
  readonly former?: Both<Partial<ReturnSums>>;
}

const SIDES = ['shop', 'presentment'] as const;
type Side = (typeof SIDES)[number];

/**
 * Completes and checks the sums of a return in both currencies.
 *
 * Shipping that was not given is the sum of the lines' shipping and shipping tax. The refund is
 * filled so that, in each currency, refund + return credit + handling fee = return total + shipping
 * + credit shipping.
 *
 * @throws DomainError INVALID_ARGUMENT for a refund that is given and different or would be
 *   negative, for a negative total, for a derived sum above 10^12 units, and for an outcome that
 *   contradicts the sums.
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

/** Which of the sums that can follow from the lines were given for the return instead. */
export interface GivenShipping {
  readonly shipping: boolean;
  readonly shippingTax: boolean;
}

/** Whether amounts give the sums that can follow from the lines. */
export function givenShipping(amounts: ReturnAmountsInput | undefined): GivenShipping {
  return { shipping: isGiven(amounts?.shipping), shippingTax: isGiven(amounts?.shippingTax) };
}

type Given = Readonly<Record<keyof ReturnSums, Both<bigint> | undefined>>;

const FIELDS = {
  shipping: 'shipping',
  shippingTax: 'shipping_tax',
  creditShipping: 'credit_shipping',
  returnCredit: 'return_credit',
  handlingFee: 'handling_fee',
  refund: 'refund',
} as const satisfies Record<keyof ReturnSums, string>;

function optional(input: SumsInput, name: keyof ReturnSums): Both<bigint> | undefined {
  const amount = input.amounts?.[name];
  if (!isGiven(amount)) return undefined;
  return amountOf(`amounts.${FIELDS[name]}`, amount, input.currencies);
}

function isGiven(amount: Amount | undefined): boolean {
  return amount !== undefined && (amount.shop !== '' || amount.presentment !== '');
}

function sumsOn(input: SumsInput, given: Given, side: Side): CheckedSums {
  const lines = input.lines.map((line) => line[side]);
  const exchanges = input.exchanges.map((exchange) => exchange[side]);
  const former = input.former?.[side];
  const shippingTax = lines.reduce((sum, line) => sum + line.refundShippingTax, 0n);
  const shipping = lines.reduce((sum, line) => sum + line.refundShipping, shippingTax);
  const sums = {
    shipping: given.shipping?.[side] ?? former?.shipping ?? shipping,
    shippingTax: given.shippingTax?.[side] ?? former?.shippingTax ?? shippingTax,
    creditShipping: given.creditShipping?.[side] ?? former?.creditShipping ?? 0n,
    returnCredit: given.returnCredit?.[side] ?? former?.returnCredit ?? 0n,
    handlingFee: given.handlingFee?.[side] ?? former?.handlingFee ?? 0n,
  };
  const returnTotal = returnTotalOf(lines);
  if (returnTotal < 0n) throw invalidField('lines', 'must not sum up to a negative total');
  const exchangeTotal = exchanges.reduce((sum, exchange) => sum + netOf(exchange), 0n);
  if (exchangeTotal < 0n) throw invalidField('exchanges', 'must not sum up to a negative total');
  const refund = refundOf(returnTotal, sums);
  checkRefund({ refund, given: given.refund?.[side], currency: input.currencies[side] });
  const checked = { ...sums, refund, returnTotal };
  const totals = totalsOf(lines, exchanges, checked);
  checkBounds(lines, totals, input.currencies[side]);
  checkOutcome(input.outcome, totals, input.exchanges.length);
  return checked;
}

function checkRefund(o: { refund: bigint; given: bigint | undefined; currency: string }): void {
  if (o.refund < 0n) {
    throw invalidField(
      'amounts.return_credit',
      'and the handling fee together exceed what is returned',
    );
  }
  if (o.given === undefined || o.given === o.refund) return;
  const expected = `${formatAmount(o.refund, o.currency)} ${o.currency}`;
  throw invalidField('amounts.refund', `must be ${expected}, or absent to be filled`);
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
    throw refuse('leaves nothing to refund, but the refund is above zero');
  }
  if (totals.giftCard > 0n && outcome !== Outcome.CREDIT && outcome !== Outcome.EXCHANGE_CREDIT) {
    throw refuse('leaves no credit, but return credit exceeds the exchange');
  }
  if (totals.upsell > 0n && outcome !== Outcome.UPSELL) {
    throw refuse('leaves nothing to pay, but the exchange exceeds the return credit');
  }
}
