import { create } from '@bufbuild/protobuf';
import { AmountSchema } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Policy } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  type Exchange,
  ExchangeSchema,
  type LineInput,
  LineOutcome,
  Outcome,
  OutcomeSchema,
  PolicyUse,
  type Return,
  ReturnAmountsInputSchema,
  type SubmitReturnRequest,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { FoundVariant } from '../../commerce/provider.ts';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { invalidField } from '../../platform/values/errors.ts';
import {
  type LineValue,
  minus,
  netOf,
  shareOf,
  ZERO_VALUE,
} from '../../platform/values/line-value.ts';
import {
  amountOf,
  type Both,
  type Currencies,
  formatAmount,
  inBoth,
} from '../../platform/values/money.ts';
import { normalForm } from '../../platform/values/text.ts';
import { exchangeSumsIn, returnSumsIn } from '../money/totals.ts';
import { isOffered, type LineVerdict } from '../policy/eligibility.ts';
import { converted, feeOf } from '../policy/policy.ts';
import { shortened } from './look-up.ts';
import { MAX_EXCHANGES } from './submission.ts';

// What the shopper gets for a submission of which a policy makes the amounts: refund, credit, exchange items and fee.

/** The outcomes of a line. */
type Part = typeof Outcome.REFUND | typeof Outcome.CREDIT | typeof Outcome.EXCHANGE;

const PARTS: ReadonlyMap<LineOutcome, Part> = new Map([
  [LineOutcome.REFUND, Outcome.REFUND],
  [LineOutcome.CREDIT, Outcome.CREDIT],
  [LineOutcome.EXCHANGE, Outcome.EXCHANGE],
]);
const LINE_OUTCOMES: Readonly<Record<Part, LineOutcome>> = {
  [Outcome.REFUND]: LineOutcome.REFUND,
  [Outcome.CREDIT]: LineOutcome.CREDIT,
  [Outcome.EXCHANGE]: LineOutcome.EXCHANGE,
};
const outcomeText = enumText(OutcomeSchema);

/**
 * Returns what the shopper gets for each line item: its own outcome, or that of the return, or the first that is offered.
 *
 * @param verdicts about the order line of each line item.
 * @throws DomainError INVALID_ARGUMENT for an outcome that is not offered, and for line items without an outcome in a
 *   return with several.
 */
function partsOf(request: SubmitReturnRequest, verdicts: readonly LineVerdict[]): Part[] {
  const { outcome } = request;
  const whole = [...PARTS.values()].find((part) => part === outcome);
  return request.lines.map((line, n) => {
    const offers = verdicts[n]?.outcomes ?? [];
    const own = PARTS.get(line.outcome);
    const part = own ?? whole ?? (outcome === Outcome.UNSPECIFIED ? offers[0] : undefined);
    const field = own ? `lines[${n}].outcome` : 'outcome';
    if (part === undefined) throw invalidField(`lines[${n}].outcome`, 'is required');
    if (offers.includes(part)) return part as Part;
    const shown = offers.map((one) => outcomeText.toText(one)).join(', ') || 'none';
    throw invalidField(field, `is not offered for line ${n + 1}; offered are: ${shown}`);
  });
}

/** The outcome of a return with these outcomes of its lines; undefined for refund and credit, which no return has. */
function together(parts: readonly Part[]): Outcome | undefined {
  const [refund, credit, exchange] = [Outcome.REFUND, Outcome.CREDIT, Outcome.EXCHANGE].map((one) =>
    parts.some((part) => part === one),
  );
  if (refund && credit) return undefined;
  if (exchange && refund) return Outcome.EXCHANGE_REFUND;
  if (exchange && credit) return Outcome.EXCHANGE_CREDIT;
  if (exchange) return Outcome.EXCHANGE;
  return credit ? Outcome.CREDIT : Outcome.REFUND;
}

/**
 * The outcome for which a policy has the fee of a return: the one that its line items have together. After an edit they
 * may have refund and credit: then its own.
 */
export function outcomeOfLines({
  lineItems,
  outcome,
}: Pick<Return, 'lineItems' | 'outcome'>): Outcome {
  return together(lineItems.map((line) => PARTS.get(line.outcome) ?? Outcome.REFUND)) ?? outcome;
}

/**
 * Makes the outcome, the exchange items and the amounts of a submission whose line items have their values.
 *
 * Exchanged units get the same variant at equal value, or another one at its price. The fee of the policy and the
 * exchange items are paid with all that comes back. If it is not enough, the shopper pays: the outcome is UPSELL. The
 * rest is refunded; it is credit if a line item gives credit, or if no refund is offered for an exchanged one.
 *
 * @param o.rate an amount of the order in both currencies; undefined for the value of the goods.
 * @param o.variants for each order line, what its goods may be exchanged for, besides their own variant.
 * @throws DomainError INVALID_ARGUMENT
 */
export function withAmounts(
  request: SubmitReturnRequest,
  policy: Policy,
  o: {
    readonly verdicts: readonly LineVerdict[];
    readonly rate?: Both<bigint> | undefined;
    readonly variants?: ReadonlyMap<bigint, readonly FoundVariant[]>;
  },
): SubmitReturnRequest {
  if (request.amounts || request.exchanges.length > 0) {
    const field = request.amounts ? 'amounts' : 'exchanges';
    throw invalidField(field, 'must be absent: the policy and the outcomes make it');
  }
  const currencies = currenciesOf(request);
  const parts = partsOf(request, o.verdicts);
  const outcome = together(parts);
  if (outcome === undefined) {
    throw invalidField('lines', 'must not have both a refund and credit: submit two returns');
  }
  requireStated(request.outcome, outcome);
  const values = request.lines.map((line, n) => statedValue(line, n, currencies));
  const lines = request.lines.map((line, n) => ({
    ...line,
    ...refunded(line, values[n] ?? NOTHING, currencies),
    outcome: LINE_OUTCOMES[parts[n] ?? Outcome.REFUND],
  }));
  const goods = sumOf(values.map((value) => inBoth((side) => netOf(value[side]))));
  const { rate = goods, variants } = o;
  const exchanges = lines.flatMap((line, n) =>
    parts[n] === Outcome.EXCHANGE
      ? exchangeItems(line, n, {
          value: values[n] ?? NOTHING,
          variants: variants?.get(line.providerLineItemId) ?? [],
          of: { rate, currencies },
        })
      : [],
  );
  const worth = values.map((value, n) => {
    const field = `lines[${n}].refund_shipping`;
    const shipping = amountOf(field, request.lines[n]?.refundShipping, currencies);
    return inBoth((side) => netOf(value[side]) + shipping[side]);
  });
  const payable = sumOf(worth);
  const reasons = lines.map(({ reason }) => reason);
  const { returnMethod } = request;
  const exchanged = sumOf(exchanges.map((one) => exchangeValue(one, currencies)));
  // Variants have their price in the shop's currency; the other one is rounded.
  const isDearer = exchanged.shop > payable.shop;
  const facts = { returnMethod, outcome, isDearer, reasons, currencies, goods, payable, rate };
  const settled = settle({
    payable,
    fee: request.policy === PolicyUse.UNSPECIFIED ? NO_AMOUNT : feeOf(policy, facts),
    exchanged,
    refundsRest: parts.every(
      (part, n) =>
        part === Outcome.REFUND ||
        (part === Outcome.EXCHANGE && o.verdicts[n]?.outcomes.includes(Outcome.REFUND)),
    ),
  });
  const made = settledOutcome(outcome, settled);
  if (request.policy === PolicyUse.APPLY) requireOffered(policy, made);
  return {
    ...request,
    outcome: made,
    lines,
    exchanges,
    amounts: create(ReturnAmountsInputSchema, {
      returnCredit: amountIn(settled.returnCredit, currencies),
      handlingFee: amountIn(settled.handlingFee, currencies),
    }),
  };
}

/**
 * Requires that the outcome of the return is offered. With exceptions for some goods, only the outcomes of the line items
 * must be.
 *
 * @throws DomainError INVALID_ARGUMENT
 */
function requireOffered({ outcomes, exceptions }: Policy, outcome: Outcome): void {
  if (exceptions.some((one) => one.outcomes.length > 0) || isOffered(outcomes, outcome)) return;
  const offers = outcomes.map((one) => outcomeText.toText(one)).join(', ');
  const rule = `would be ${outcomeText.toText(outcome)}, which is not offered; offered are: ${offers}`;
  throw invalidField('outcome', rule);
}

interface Settled {
  readonly handlingFee: Both<bigint>;
  readonly returnCredit: Both<bigint>;
  readonly refund: Both<bigint>;
  readonly exchanged: Both<bigint>;
}

/**
 * Divides what comes back. A return refunds in both currencies or in none: a rest that rounding leaves in one of them
 * is added to the fee.
 */
function settle(o: {
  readonly payable: Both<bigint>;
  readonly fee: Both<bigint>;
  readonly exchanged: Both<bigint>;
  readonly refundsRest: boolean;
}): Settled {
  const { payable, fee, exchanged } = o;
  const rest = inBoth((side) => payable[side] - fee[side] - exchanged[side]);
  const isRefunded = o.refundsRest && rest.shop > 0n && rest.presentment > 0n;
  const kept = (side: keyof Both<bigint>) =>
    o.refundsRest && !isRefunded && rest[side] > 0n ? rest[side] : 0n;
  const handlingFee = inBoth((side) => fee[side] + kept(side));
  const refund = isRefunded ? rest : NO_AMOUNT;
  const returnCredit = inBoth((side) => payable[side] - handlingFee[side] - refund[side]);
  return { handlingFee, returnCredit, refund, exchanged };
}

const NO_AMOUNT: Both<bigint> = { shop: 0n, presentment: 0n };

function sumOf(amounts: readonly Both<bigint>[]): Both<bigint> {
  return inBoth((side) => amounts.reduce((sum, one) => sum + one[side], 0n));
}

function exchangeValue(one: Exchange, currencies: Currencies): Both<bigint> {
  const read = (name: keyof LineValue) => amountOf(name, one[name], currencies);
  const [price, discount, tax] = [read('price'), read('discount'), read('tax')];
  return inBoth((side) => price[side] - discount[side] + tax[side]);
}

/**
 * A stated outcome of refund, credit or exchange is only for line items without their own. @throws DomainError
 * INVALID_ARGUMENT for another one than the line items have together.
 */
function requireStated(stated: Outcome, outcome: Outcome): void {
  const isOfLines = [...PARTS.values()].some((part) => part === stated);
  if (stated === outcome || stated === Outcome.UNSPECIFIED || isOfLines) return;
  throw invalidField('outcome', `must be ${outcomeText.toText(outcome)}, as the line items say`);
}

/** The outcome of a return whose line items have this outcome together, when its amounts are known. */
function settledOutcome(outcome: Outcome, { returnCredit: credit, refund, exchanged }: Settled) {
  if (isMore(exchanged, credit)) return Outcome.UPSELL;
  if (outcome !== Outcome.EXCHANGE) return outcome;
  if (refund.shop > 0n) return Outcome.EXCHANGE_REFUND;
  return isMore(credit, exchanged) ? Outcome.EXCHANGE_CREDIT : outcome;
}

/** Whether the first amount is more than the other one, in any currency. */
function isMore(one: Both<bigint>, other: Both<bigint>): boolean {
  return one.shop > other.shop || one.presentment > other.presentment;
}

/** Whether the exchange items of a return cost more than all that comes back, before the fee. */
export function isDearerExchange(details: Return): boolean {
  const { refund, returnCredit, handlingFee } = returnSumsIn(details).shop;
  const cost = exchangeSumsIn(details).reduce((sum, { shop }) => sum + netOf(shop), 0n);
  return cost > refund + returnCredit + handlingFee;
}

const NOTHING: Both<LineValue> = { shop: ZERO_VALUE, presentment: ZERO_VALUE };

/** The refund of a line item that states none: all of its value. */
function refunded(line: LineInput, value: Both<LineValue>, currencies: Currencies) {
  if (line.refundItem || line.refundTax) return {};
  const goods = inBoth((side) => {
    const { price, discount } = value[side];
    return price > discount ? price - discount : 0n;
  });
  return {
    refundItem: amountIn(goods, currencies),
    refundTax: amountIn(
      inBoth((side) => value[side].tax),
      currencies,
    ),
  };
}

/** @throws DomainError INVALID_ARGUMENT for an unknown currency. */
function currenciesOf({ currency, presentmentCurrency }: SubmitReturnRequest): Currencies {
  const currencies = { shop: currency, presentment: presentmentCurrency || currency };
  for (const [side, code] of Object.entries(currencies)) {
    if (decimalsOf(code) !== undefined) continue;
    const field = side === 'shop' ? 'currency' : 'presentment_currency';
    throw invalidField(field, 'must be an ISO 4217 currency');
  }
  return currencies;
}

function statedValue(line: LineInput, n: number, currencies: Currencies): Both<LineValue> {
  const read = (name: 'price' | 'discount' | 'tax') =>
    amountOf(`lines[${n}].${name}`, line[name], currencies);
  const [price, discount, tax] = [read('price'), read('discount'), read('tax')];
  return inBoth((side) => ({ price: price[side], discount: discount[side], tax: tax[side] }));
}

function amountIn(minor: Both<bigint>, currencies: Currencies) {
  return create(
    AmountSchema,
    inBoth((side) => formatAmount(minor[side], currencies[side])),
  );
}

interface Exchanged {
  /** The value of the returned units. */
  readonly value: Both<LineValue>;
  readonly variants: readonly FoundVariant[];
  readonly of: { readonly rate: Both<bigint>; readonly currencies: Currencies };
}

/**
 * Returns the exchange items for the units of a line item: the same variant at the value of the returned units, or the
 * variant that is named, at its price.
 *
 * @throws DomainError INVALID_ARGUMENT for a variant that the platform does not offer for the line item, and for an own
 *   variant that is not known.
 */
function exchangeItems(line: LineInput, n: number, o: Exchanged): Exchange[] {
  const { quantity, variantId, sku, variantTitle } = line;
  const { currencies } = o.of;
  if (quantity > MAX_EXCHANGES) {
    throw invalidField(`lines[${n}].quantity`, `must be at most ${MAX_EXCHANGES} for an exchange`);
  }
  const wanted = normalForm(line.exchangeVariant);
  const isNamed = (names: readonly string[]) => names.map(normalForm).includes(wanted);
  const own = [variantId > 0n ? String(variantId) : '', sku, variantTitle];
  const other =
    wanted === '' || isNamed(own)
      ? undefined
      : o.variants.find((one) => isNamed([String(one.variantId), one.sku, one.title]));
  if (wanted !== '' && !isNamed(own) && !other) {
    const names = [variantTitle || sku, ...o.variants.map(({ title }) => title)].filter(Boolean);
    const offers = names.length > 0 ? `; offered are: ${names.slice(0, 20).join(', ')}` : '';
    throw invalidField(`lines[${n}].exchange_variant`, `is not offered for this line${offers}`);
  }
  if (!other && variantId === 0n && sku === '') {
    throw invalidField(`lines[${n}].outcome`, 'must not be exchange: the variant is not known');
  }
  const price = other && pricesOf(other, o.of);
  if (other && !price) {
    const rule = 'must be the variant that was bought: an order that cost nothing has no rate';
    throw invalidField(`lines[${n}].exchange_variant`, rule);
  }
  const values = price ? Array.from({ length: quantity }, () => price) : unitsOf(o.value, quantity);
  const title = [line.lineItemTitle || line.title, other ? other.title : variantTitle];
  return values.map((one) => {
    const amount = (name: keyof LineValue) =>
      amountIn(
        inBoth((side) => one[side][name]),
        currencies,
      );
    return create(ExchangeSchema, {
      productId: other?.productId ?? line.productId,
      variantId: other?.variantId ?? variantId,
      sku: other?.sku ?? sku,
      title: shortened(title.filter(Boolean).join(' - ')),
      price: amount('price'),
      discount: amount('discount'),
      tax: amount('tax'),
    });
  });
}

/** The value of each unit. Together they are the value. */
function unitsOf(value: Both<LineValue>, quantity: number): Both<LineValue>[] {
  const upTo = (units: number): Both<LineValue> =>
    inBoth((side) =>
      units === 0 ? ZERO_VALUE : shareOf({ units: quantity, value: value[side] }, units),
    );
  return Array.from({ length: quantity }, (_, unit) => {
    const [before, after] = [upTo(unit), upTo(unit + 1)];
    return inBoth((side) => minus(after[side], before[side]));
  });
}

/** The price of one unit of a variant in both currencies, by the rate of the order. Undefined without a rate. */
function pricesOf({ price, tax }: FoundVariant, of: Exchanged['of']): Both<LineValue> | undefined {
  const [totals, taxes] = [converted(price + tax, of), converted(tax, of)];
  if (!totals || !taxes) return undefined;
  return inBoth((side) => {
    const taxed = taxes[side];
    return { price: totals[side] - taxed, discount: 0n, tax: taxed };
  });
}
