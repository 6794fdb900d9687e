import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { type Amount, AmountSchema } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import {
  type LineInput,
  LineInputSchema,
  OrderSchema,
  type SubmitReturnRequest,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { OrderAnswer } from '../../commerce/find-order.ts';
import type { FoundOrder } from '../../commerce/provider.ts';
import {
  type Elsewhere,
  type LineLeft,
  linesLeft,
  moneyLeft,
  shippingThere,
} from '../../commerce/remaining.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { DomainError, invalidField, stateForbids } from '../../platform/values/errors.ts';
import {
  type LineValue,
  minus,
  netOf,
  shareOf,
  ZERO_VALUE,
} from '../../platform/values/line-value.ts';
import { amountOf, type Both, formatAmount, inBoth } from '../../platform/values/money.ts';
import { normalForm } from '../../platform/values/text.ts';

/** Whether a submission has the name of the order and not its id. Then the shop's provider must complete it. */
export function needsLookUp({ order }: SubmitReturnRequest): boolean {
  return order !== undefined && order.providerOrderId === 0n && order.name !== '';
}

/**
 * Completes a submission that has the name of the order and no id. The order at the shop's commerce provider has the
 * values: the order's id, the currencies, and the id, title, sku, product, variant, amounts and ordered units of each
 * line item. Values that the submission has are not replaced; a stated price is at most what is left of the line. A
 * submission without line items gets all units that can still be returned.
 *
 * @param answer of the provider, for the name in the submission.
 * @param elsewhere what other returns have of the order.
 * @throws DomainError INVALID_ARGUMENT for a shop whose provider cannot look up orders, an order that does not exist
 *   there, and a line item that is not in it; STATE_FORBIDS for an order in another currency than the shop's;
 *   ORDERED_QUANTITY_EXCEEDED for units that are in other returns.
 */
export function lookedUp(
  request: SubmitReturnRequest,
  answer: OrderAnswer,
  elsewhere: Elsewhere = [],
): SubmitReturnRequest {
  const found = orderIn(answer);
  const { currencies } = found;
  const shipping = shippingThere(found, elsewhere);
  requireCurrency(request.currency, currencies.shop);
  requireCurrency(request.presentmentCurrency, currencies.presentment);
  return {
    ...request,
    order: {
      ...create(OrderSchema),
      ...request.order,
      providerOrderId: found.id,
      name: found.name,
    },
    currency: currencies.shop,
    presentmentCurrency: currencies.presentment,
    ...(shipping && { orderShipping: amountIn(shipping, currencies) }),
    lines: linesOf(request, found, elsewhere),
  };
}

/**
 * Rejects a submission in another currency than the order, because the prices of the order are in its own currencies.
 */
function requireCurrency(sent: string, ofOrder: string): void {
  if (decimalsOf(ofOrder) === undefined) throw stateForbids('the order has an unknown currency');
  if (sent === '' || sent === ofOrder) return;
  throw stateForbids(`the order is in ${ofOrder}, not in ${sent}`);
}

function orderIn({ looksUp, order }: OrderAnswer): FoundOrder {
  if (order) return order;
  throw looksUp
    ? invalidField('order.name', 'is the name of no order at the commerce provider')
    : invalidField('order.provider_order_id', "is required: the shop's provider looks up none");
}

function linesOf(
  request: SubmitReturnRequest,
  found: FoundOrder,
  elsewhere: Elsewhere,
): LineInput[] {
  const { lines } = request;
  const left = linesLeft(found, elsewhere);
  const asked = lines.map((line, n) => {
    const known = lineOf(line, n, left);
    requireUnits(line, n, known);
    return [line, known] as const;
  });
  const returnable = left.filter((line) => line.returnable > 0);
  const all = returnable.map((known) => [create(LineInputSchema), known] as const);
  if (lines.length + all.length === 0) {
    throw invalidField('order.name', 'is the name of an order without units to return');
  }
  let money = withoutShipping(request, moneyLeft(found, elsewhere), found.currencies);
  return (lines.length > 0 ? asked : all).map(([line, known], n) => {
    const most = inBoth((side) => smallest(netOf(known.valueLeft[side]), money?.[side]));
    const made = completed(line, known, { at: `lines[${n}]`, most, currencies: found.currencies });
    money = money && inBoth((side) => (money?.[side] ?? 0n) - netOf(made.value[side]));
    return made.line;
  });
}

/**
 * Returns what is left of the money of the order for goods, without the shipping that the submission refunds.
 *
 * @throws DomainError INVALID_ARGUMENT for more shipping than is left of the money.
 */
function withoutShipping(
  { lines, amounts }: SubmitReturnRequest,
  money: Both<bigint> | undefined,
  currencies: Both<string>,
): Both<bigint> | undefined {
  const sent = [
    ...lines.map(
      ({ refundShipping }, n) => [`lines[${n}].refund_shipping`, refundShipping] as const,
    ),
    ['amounts.credit_shipping', amounts?.creditShipping] as const,
  ];
  return sent.reduce((left, [field, amount]) => {
    const shipping = amountOf(field, amount, currencies);
    return (
      left &&
      inBoth((side) => {
        const rest = left[side] - shipping[side];
        if (shipping[side] === 0n || rest >= 0n) return rest;
        const most = `${formatAmount(smallest(left[side]), currencies[side])} ${currencies[side]}`;
        throw invalidField(field, `must not exceed ${most}, which is left of what was paid`);
      })
    );
  }, money);
}

/**
 * Returns what was paid for some units of order lines, as a return of them would get it: their shares in what is left.
 *
 * @param quantityOf the number of units of a line.
 */
export function valuesLeft(
  found: FoundOrder,
  elsewhere: Elsewhere,
  quantityOf: (line: LineLeft) => number,
): Both<LineValue>[] {
  let money = moneyLeft(found, elsewhere);
  return linesLeft(found, elsewhere).map((line) => {
    const quantity = quantityOf(line);
    const most = inBoth((side) => smallest(netOf(line.valueLeft[side]), money?.[side]));
    const value = quantity === 0 ? NOTHING : shareIn(line, quantity, { most });
    money = money && inBoth((side) => (money?.[side] ?? 0n) - netOf(value[side]));
    return value;
  });
}

const NOTHING: Both<LineValue> = { shop: ZERO_VALUE, presentment: ZERO_VALUE };

/**
 * Returns the order line with the id of the line item, or else the one with its sku.
 *
 * @throws DomainError INVALID_ARGUMENT when there is none, or several.
 */
export function lineOf(
  { providerLineItemId, sku }: LineInput,
  n: number,
  lines: readonly LineLeft[],
): LineLeft {
  const field = `lines[${n}].${providerLineItemId > 0n ? 'provider_line_item_id' : 'sku'}`;
  const matching = lines.filter((line) =>
    providerLineItemId > 0n
      ? line.id === providerLineItemId
      : sku !== '' && normalForm(line.sku) === normalForm(sku),
  );
  const [line] = matching;
  if (!line) throw invalidField(field, 'is not in the order');
  if (matching.length > 1) throw invalidField(field, 'is in the order more than once; send the id');
  return line;
}

function requireUnits({ quantity }: LineInput, n: number, line: LineLeft): void {
  const { id, returnable, returnableThere } = line;
  const field = `lines[${n}].quantity`;
  if (quantity > returnableThere || returnableThere === 0) {
    throw invalidField(field, `must be at most ${returnableThere}: so many can be returned`);
  }
  if (returnable > 0 && quantity <= returnable) return;
  throw new DomainError(
    Code.FailedPrecondition,
    ErrorReason.ORDERED_QUANTITY_EXCEEDED,
    `order line ${id}: ${returnableThere} units can be returned, and ${returnableThere - returnable} of them are in other returns`,
    { field },
  );
}

interface Completing {
  /** Path of the line item in the request. */
  readonly at: string;
  /** What is left of the order line and of the money of the order. */
  readonly most: Both<bigint>;
  readonly currencies: Both<string>;
}

function completed(line: LineInput, left: LineLeft, o: Completing) {
  const quantity = line.quantity || left.returnable;
  const unknown = line.title === '' && line.lineItemTitle === '';
  const value = line.price ? stated(line, o) : shareIn(left, quantity, o);
  return {
    value,
    line: {
      ...line,
      providerLineItemId: left.id,
      productId: line.productId || (left.productId ?? 0n),
      variantId: line.variantId || (left.variantId ?? 0n),
      sku: line.sku || shortened(left.sku),
      lineItemTitle: unknown ? shortened(left.title) : line.lineItemTitle,
      variantTitle: unknown
        ? line.variantTitle || shortened(left.variantTitle ?? '')
        : line.variantTitle,
      image: line.image || (left.image ?? ''),
      quantity,
      ...(line.price ? {} : amountsOf(line, value, o)),
      orderedQuantity: line.orderedQuantity ?? left.quantity,
    },
  };
}

const smallest = (one: bigint, other = one): bigint => {
  const least = one < other ? one : other;
  return least > 0n ? least : 0n;
};

/** Returns the stated value of a line item. @throws DomainError INVALID_ARGUMENT when less than that is left. */
function stated(line: LineInput, { at, most, currencies }: Completing): Both<LineValue> {
  const [price, discount, tax] = (['price', 'discount', 'tax'] as const).map((name) =>
    amountOf(`${at}.${name}`, line[name], currencies),
  ) as [Both<bigint>, Both<bigint>, Both<bigint>];
  return inBoth((side) => {
    const value = { price: price[side], discount: discount[side], tax: tax[side] };
    if (netOf(value) <= most[side]) return value;
    const left = `${formatAmount(most[side], currencies[side])} ${currencies[side]}`;
    throw invalidField(
      `${at}.price`,
      `minus discount plus tax must not exceed ${left}, which is left of what was paid`,
    );
  });
}

/** Returns the share of some units in what is left of their order line. */
function shareIn(
  { unitsLeft: units, valueLeft }: LineLeft,
  quantity: number,
  { most }: Pick<Completing, 'most'>,
): Both<LineValue> {
  return inBoth((side) => {
    const share = shareOf({ units, value: valueLeft[side] }, quantity);
    const over = netOf(share) - most[side];
    return over > 0n ? minus(share, { ...ZERO_VALUE, price: over }) : share;
  });
}

function amountIn(minor: Both<bigint>, currencies: Both<string>): Amount {
  return create(
    AmountSchema,
    inBoth((side) => formatAmount(minor[side], currencies[side])),
  );
}

/** Cuts a text, because a provider may have a longer one than a line item may have. */
export function shortened(text: string): string {
  return [...text].slice(0, SHORT_TEXT_MAX).join('');
}

/**
 * Returns the amounts of a line item that was submitted without a price. All of its value is refunded, unless the
 * submission says how much.
 *
 * @throws DomainError INVALID_ARGUMENT for a discount or tax without the price.
 */
function amountsOf(line: LineInput, share: Both<LineValue>, { at, currencies }: Completing) {
  if (isStated(line.discount) || isStated(line.tax)) {
    throw invalidField(`${at}.price`, 'is required with discount and tax; or omit all three');
  }
  const amount = (read: (value: LineValue) => bigint) =>
    amountIn(
      inBoth((side) => read(share[side])),
      currencies,
    );
  return {
    price: amount(({ price }) => price),
    discount: amount(({ discount }) => discount),
    tax: amount(({ tax }) => tax),
    refundItem: isStated(line.refundItem)
      ? line.refundItem
      : amount(({ price, discount }) => price - discount),
    refundTax: isStated(line.refundTax) ? line.refundTax : amount(({ tax }) => tax),
  };
}

function isStated(amount: Amount | undefined): amount is Amount {
  return amount !== undefined && (amount.shop !== '' || amount.presentment !== '');
}
