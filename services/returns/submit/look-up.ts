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
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { decimalsOf } from '../../platform/currencies.ts';

import { DomainError, invalidField, stateForbids } from '../../platform/errors.ts';
import { type LineValue, shareOf } from '../../platform/line-value.ts';
import { type Both, formatAmount, inBoth } from '../../platform/money.ts';
import { normalForm } from '../../platform/text.ts';

import type { OrderAnswer } from '../commerce/find-order.ts';
import type { FoundOrder } from '../commerce/provider.ts';
import { type Elsewhere, type LineLeft, linesLeft } from '../commerce/remaining.ts';

/** Whether a submission has the name of the order and not its id. Then the shop's provider must complete it. */
export function needsLookUp({ order }: SubmitReturnRequest): boolean {
  return order !== undefined && order.providerOrderId === 0n && order.name !== '';
}

/**
 * Completes a submission that has the name of the order and no id. The order at the shop's commerce provider has the
 * values: the order's id, the currencies, and the id, title, sku, product, variant, amounts and ordered units of each
 * line item. Values that the submission has are not replaced. A submission without line items gets all units that can
 * still be returned.
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
  const { currencies, shipping } = found;
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
    ...(shipping && { orderShipping: amountIn(shipping.paid, currencies) }),
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
  { lines }: SubmitReturnRequest,
  found: FoundOrder,
  elsewhere: Elsewhere,
): LineInput[] {
  const left = linesLeft(found, elsewhere);
  if (lines.length > 0) {
    return lines.map((line, n) => {
      const known = lineOf(line, n, left);
      requireUnits(line, n, known);
      return completed(line, known, found);
    });
  }
  const returnable = left.filter((line) => line.returnable > 0);
  if (returnable.length === 0) {
    throw invalidField('order.name', 'is the name of an order without units to return');
  }
  return returnable.map((line) => completed(create(LineInputSchema), line, found));
}

/** Returns the order line with the id of the line item, or else the one with its sku. */
function lineOf(
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

function completed(line: LineInput, left: LineLeft, { currencies }: FoundOrder): LineInput {
  const quantity = line.quantity || left.returnable;
  const unknown = line.title === '' && line.lineItemTitle === '';
  return {
    ...line,
    providerLineItemId: left.id,
    productId: line.productId || (left.productId ?? 0n),
    variantId: line.variantId || (left.variantId ?? 0n),
    sku: line.sku || shortened(left.sku),
    lineItemTitle: unknown ? shortened(left.title) : line.lineItemTitle,
    quantity,
    ...(line.price ? {} : amountsOf(left, quantity, currencies)),
    orderedQuantity: line.orderedQuantity ?? left.quantity,
  };
}

function amountIn(minor: Both<bigint>, currencies: Both<string>): Amount {
  return create(
    AmountSchema,
    inBoth((side) => formatAmount(minor[side], currencies[side])),
  );
}

/** Cuts a text, because a provider may have a longer one than a line item may have. */
function shortened(text: string): string {
  return [...text].slice(0, SHORT_TEXT_MAX).join('');
}

/**
 * Returns the amounts of a line item that was submitted without a price: the share of its units in what is left of the
 * order line. All of it is refunded.
 */
function amountsOf(
  { unitsLeft: units, valueLeft }: LineLeft,
  quantity: number,
  currencies: Both<string>,
) {
  const share = inBoth((side) => shareOf({ units, value: valueLeft[side] }, quantity));
  const amount = (read: (value: LineValue) => bigint) =>
    amountIn(
      inBoth((side) => read(share[side])),
      currencies,
    );
  return {
    price: amount(({ price }) => price),
    discount: amount(({ discount }) => discount),
    tax: amount(({ tax }) => tax),
    refundItem: amount(({ price, discount }) => price - discount),
    refundTax: amount(({ tax }) => tax),
  };
}
