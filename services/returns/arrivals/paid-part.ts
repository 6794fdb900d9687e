import { create } from '@bufbuild/protobuf';
import {
  type Return as Details,
  DispositionOutcome,
  LineAmountsSchema,
  type LineItem,
  TotalsSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { netOf, shareOf } from '../../platform/values/line-value.ts';
import { type Both, inBoth } from '../../platform/values/money.ts';
import {
  amountTexts,
  exchangeSumsIn,
  type LineSums,
  lineRefunds,
  lineSumsIn,
  type ReturnSums,
  returnSumsIn,
  returnTotalOf,
  shippingOf,
  totalsOf,
} from '../money/totals.ts';

// What a return pays whose policy pays the goods that arrived. No function reads or writes the database.

/**
 * The number of units of a line item that are paid where the policy pays what arrived: those that arrived undamaged, and
 * those that a person accepted by an assessment with any outcome but `missing`. An assessment without `quantity` is
 * about all units. With it, it is about the damaged units first.
 */
export function payableUnits(line: LineItem): number {
  const { quantity, damagedQuantity: damaged } = line;
  const isWhole = line.arrivedQuantity === 0 && line.returnedAt !== undefined;
  const arrived = isWhole ? quantity : line.arrivedQuantity;
  const accepted = acceptedUnits(line);
  const undamaged = arrived - damaged;
  return Math.min(quantity, Math.max(undamaged + Math.min(accepted, damaged), accepted));
}

function acceptedUnits({ disposition, quantity }: LineItem): number {
  if (!disposition || disposition.outcome === DispositionOutcome.MISSING) return 0;
  return disposition.quantity ?? quantity;
}

/** The paid units of line items, by id. A line item that is not in it is paid as announced. */
export type PaidUnits = ReadonlyMap<bigint, number>;

/**
 * The fee that the policy takes for goods of this net value, if the shopper gets at most `payable` together with the
 * fee. In both currencies, in minor units.
 */
export type FeeRule = (goods: Both<bigint>, payable: Both<bigint>) => Both<bigint>;

/** The amounts of a return for its paid units. */
interface PaidPart {
  /** The return with only its paid units: line items of which none is paid are left out. */
  readonly details: Details;
  /** The amounts of all line items, by id. */
  readonly lines: ReadonlyMap<bigint, Both<LineSums>>;
  readonly sums: Both<ReturnSums>;
}

/**
 * Returns the amounts of a return for its paid units. Each amount of a line item is the share of these units, as in
 * `line-value.ts`. What is less is taken from the refund, then from the credit, and last from the fee. Credit for
 * shipping stays. A fee that is the policy's is that of the paid goods.
 *
 * Undefined when the shopper would have to pay more for the exchange than was agreed. A person must decide then.
 */
export function paidPart(
  details: Details,
  units: PaidUnits,
  feeFor?: FeeRule,
): PaidPart | undefined {
  const currencies = { shop: details.currency, presentment: details.presentmentCurrency };
  const shares = details.lineItems.map((line) => {
    const paid = units.get(line.lineItemId) ?? line.quantity;
    const whole = lineSumsIn(line, currencies);
    const sums = inBoth((side) => shareOfLine(whole[side], paid, line.quantity));
    return { line, paid, whole, sums };
  });
  const before = returnSumsIn(details);
  const exchanges = exchangeSumsIn(details);
  const values = (of: 'whole' | 'sums') =>
    inBoth((side) => {
      const lines = shares.map((share) => share[of][side]);
      const goods = returnTotalOf(lines);
      return { goods, together: goods + shippingOf(lines) + before[side].creditShipping };
    });
  const fees = feesOf(before, { feeFor, announced: values('whole'), paid: values('sums') });
  const paidValues = values('sums');
  const sides = inBoth((side) => {
    const exchangeTotal = exchanges.reduce((sum, one) => sum + netOf(one[side]), 0n);
    const { together } = paidValues[side];
    return lessened(before[side], { fee: fees[side], together, exchangeTotal });
  });
  const { shop, presentment } = sides;
  if (!shop || !presentment) return undefined;
  const sums = { shop, presentment };
  const totals = (side: keyof Both<unknown>) =>
    create(
      TotalsSchema,
      amountTexts(
        totalsOf(
          shares.map((share) => share.sums[side]),
          exchanges.map((one) => one[side]),
          sums[side],
        ),
        currencies[side],
      ),
    );
  const amounts = (one: LineSums, currency: string) =>
    create(LineAmountsSchema, amountTexts({ ...one, ...lineRefunds(one) }, currency));
  const lineItems = shares
    .filter(({ paid }) => paid > 0)
    .map(({ line, paid, sums: own }) => ({
      ...line,
      quantity: paid,
      amounts: amounts(own.shop, currencies.shop),
      presentmentAmounts: amounts(own.presentment, currencies.presentment),
    }));
  return {
    details: {
      ...details,
      totals: totals('shop'),
      presentmentTotals: totals('presentment'),
      lineItems,
    },
    lines: new Map(shares.map(({ line, sums: own }) => [line.lineItemId, own])),
    sums,
  };
}

function shareOfLine(whole: LineSums, paid: number, units: number): LineSums {
  if (paid >= units) return whole;
  const part = (minor: bigint) => (minor * BigInt(paid)) / BigInt(units);
  const value = shareOf({ units, value: whole }, paid);
  const goods = value.price > value.discount ? value.price - value.discount : 0n;
  const refund = part(whole.refundItem + whole.refundTax);
  // Rounding must not refund more for the goods than they cost: the tax gets the rest.
  const refundItem = smaller(refund - part(whole.refundTax), goods);
  return {
    ...value,
    refundItem,
    refundTax: smaller(refund - refundItem, value.tax),
    refundShipping: part(whole.refundShipping),
    refundShippingTax: part(whole.refundShippingTax),
  };
}

const smaller = (one: bigint, other: bigint): bigint => (one < other ? one : other);

/** The net value of goods, and what they, shipping and the credit for shipping are together. */
type Values = Both<{ readonly goods: bigint; readonly together: bigint }>;

/** Returns the fee for the paid goods. A fee that is not the policy's stays. */
function feesOf(
  before: Both<ReturnSums>,
  o: { readonly feeFor: FeeRule | undefined; readonly announced: Values; readonly paid: Values },
): Both<bigint> {
  const feeOn = (values: Values) =>
    o.feeFor?.(
      inBoth((side) => values[side].goods),
      inBoth((side) => values[side].together),
    );
  const announced = feeOn(o.announced);
  const isOfPolicy =
    announced?.shop === before.shop.handlingFee &&
    announced.presentment === before.presentment.handlingFee;
  const paid = isOfPolicy ? feeOn(o.paid) : undefined;
  return inBoth((side) => {
    const { handlingFee } = before[side];
    return paid ? smaller(paid[side], handlingFee) : handlingFee;
  });
}

/** Lessens refund, credit and fee, so that they are again what the goods and all shipping are together. */
function lessened(
  before: ReturnSums,
  o: { readonly fee: bigint; readonly together: bigint; readonly exchangeTotal: bigint },
): ReturnSums | undefined {
  const { creditShipping } = before;
  const { together, exchangeTotal } = o;
  const handlingFee = smaller(o.fee, together);
  let less = before.refund + before.returnCredit - (together - handlingFee);
  // Lines with a discount above their price may be worth more in part.
  if (less < 0n) return undefined;
  const take = (from: bigint): bigint => {
    const taken = smaller(less, from);
    less -= taken;
    return from - taken;
  };
  const refund = take(before.refund);
  const returnCredit = take(before.returnCredit);
  const upsell = (credit: bigint) => (exchangeTotal > credit ? exchangeTotal - credit : 0n);
  if (less > 0n || upsell(returnCredit) > upsell(before.returnCredit)) return undefined;
  return { creditShipping, returnCredit, handlingFee, refund };
}
