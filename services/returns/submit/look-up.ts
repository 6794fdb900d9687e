import { create } from '@bufbuild/protobuf';
import { AmountSchema } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import {
  type LineInput,
  LineInputSchema,
  OrderSchema,
  type SubmitReturnRequest,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { decimalsOf } from '../../platform/currencies.ts';
import { invalidField, stateForbids } from '../../platform/errors.ts';
import { type Both, formatAmount, minorOf } from '../../platform/money.ts';
import type { OrderAnswer } from '../commerce/find-order.ts';
import type { FoundLine, FoundOrder } from '../commerce/provider.ts';

/** Whether a submission has the name of the order and not its id. Then the shop's provider must complete it. */
export function needsLookUp({ order }: SubmitReturnRequest): boolean {
  return order !== undefined && order.providerOrderId === 0n && order.name !== '';
}

/**
 * Completes a submission that has the name of the order and no id. The order at the shop's commerce provider has the
 * values: the order's id, the currencies, and the id, title, sku, product, variant, price and ordered units of each
 * line item. Values that the submission has are not replaced. A submission without line items gets all units that can
 * still be returned.
 *
 * @param answer of the provider, for the name in the submission.
 * @throws DomainError INVALID_ARGUMENT for a shop whose provider cannot look up orders, an order that does not exist
 *   there, and a line item that is not in it; STATE_FORBIDS for an order in another currency than the shop's.
 */
export function lookedUp(request: SubmitReturnRequest, answer: OrderAnswer): SubmitReturnRequest {
  const found = orderIn(answer);
  const { currencies } = found;
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
    lines: linesOf(request, found),
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

function linesOf({ lines }: SubmitReturnRequest, found: FoundOrder): LineInput[] {
  if (lines.length > 0) {
    return lines.map((line, n) => {
      const known = lineOf(line, n, found);
      requireUnits(line, n, known);
      return completed(line, known, found);
    });
  }
  const returnable = found.lines.filter((line) => line.returnable > 0);
  if (returnable.length === 0) {
    throw invalidField('order.name', 'is the name of an order without units to return');
  }
  return returnable.map((line) => completed(create(LineInputSchema), line, found));
}

/** Returns the order line with the id of the line item, or else the one with its sku. */
function lineOf(
  { providerLineItemId, sku }: LineInput,
  n: number,
  { lines }: FoundOrder,
): FoundLine {
  const field = `lines[${n}].${providerLineItemId > 0n ? 'provider_line_item_id' : 'sku'}`;
  const matching = lines.filter((line) =>
    providerLineItemId > 0n ? line.id === providerLineItemId : sku !== '' && line.sku === sku,
  );
  const [line] = matching;
  if (!line) throw invalidField(field, 'is not in the order');
  if (matching.length > 1) throw invalidField(field, 'is in the order more than once; send the id');
  return line;
}

function requireUnits({ quantity }: LineInput, n: number, { returnable }: FoundLine): void {
  if (returnable > 0 && quantity <= returnable) return;
  throw invalidField(
    `lines[${n}].quantity`,
    `must be at most ${returnable}: so many can be returned`,
  );
}

function completed(line: LineInput, found: FoundLine, { currencies }: FoundOrder): LineInput {
  const quantity = line.quantity || found.returnable;
  const unknown = line.title === '' && line.lineItemTitle === '';
  return {
    ...line,
    providerLineItemId: found.id,
    productId: line.productId || (found.productId ?? 0n),
    variantId: line.variantId || (found.variantId ?? 0n),
    sku: line.sku || shortened(found.sku),
    lineItemTitle: unknown ? shortened(found.title) : line.lineItemTitle,
    quantity,
    ...(line.price ? {} : pricesOf(found, quantity, currencies)),
    orderedQuantity: line.orderedQuantity ?? found.quantity,
  };
}

/** Cuts a text, because a provider may have a longer one than a line item may have. */
function shortened(text: string): string {
  return [...text].slice(0, SHORT_TEXT_MAX).join('');
}

function requireDecimals(price: string, currency: string): void {
  const [, fraction = ''] = price.split('.');
  if (!/[^0]/.test(fraction.slice(decimalsOf(currency)))) return;
  throw stateForbids(`the order has the price ${price} ${currency}, which has too many decimals`);
}

/**
 * Returns the `price` of a line item that was submitted without one: the price of its units in both currencies. The
 * provider's price already includes the discounts, and all of it is refunded.
 */
function pricesOf({ unitPrice }: FoundLine, quantity: number, currencies: Both<string>) {
  const total = (side: keyof Both<string>) => {
    requireDecimals(unitPrice[side], currencies[side]);
    const minor = minorOf(unitPrice[side], currencies[side]) * BigInt(quantity);
    return formatAmount(minor, currencies[side]);
  };
  const price = create(AmountSchema, { shop: total('shop'), presentment: total('presentment') });
  return { price, refundItem: price };
}
