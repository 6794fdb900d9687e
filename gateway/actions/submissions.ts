import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Eligibility } from '../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  type LineInputSchema,
  LineOutcome,
  LineOutcomeSchema,
  Outcome,
  OutcomeSchema,
  PolicyUse,
  type Return,
  ReturnMethod,
  ReturnMethodSchema,
  ReturnType,
  ReturnTypeSchema,
  type SubmitReturnRequestSchema,
  UpsellPayment,
  UpsellPaymentSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { EligibilityQuery } from '../../services/contract/resources/eligibility.ts';
import type { SubmissionBody } from '../../services/contract/resources/submission.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { decimalsOf } from '../../services/platform/values/currencies.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { invalidField } from '../../services/platform/values/errors.ts';
import { type LineValue, shareOf, ZERO_VALUE } from '../../services/platform/values/line-value.ts';
import { formatAmount, parseAmount } from '../../services/platform/values/money.ts';
import { type ActionContext, callerOf, sent } from './context.ts';
import { addressOf } from './destinations.ts';

const OUTCOME = enumText(OutcomeSchema);
const LINE_OUTCOME = enumText(LineOutcomeSchema);
const METHOD = enumText(ReturnMethodSchema);
const TYPE = enumText(ReturnTypeSchema);
const UPSELL = enumText(UpsellPaymentSchema);

/** The fields of a new message. */
type Fields<T> = Omit<Exclude<T, { $unknown?: unknown }>, '$typeName'>;
type Submission = Fields<MessageInitShape<typeof SubmitReturnRequestSchema>>;
type Line = Fields<MessageInitShape<typeof LineInputSchema>>;
type Item = NonNullable<SubmissionBody['items']>[number];
type StatedOrder = NonNullable<SubmissionBody['order']>;
type StatedLine = StatedOrder['lines'][number];

/** Deadline of a call that may wait 8 s for the shop's commerce platform. Milliseconds. */
const timeoutMs = deadline(12_000);

/**
 * Returns what of an order may be returned. Rejects with ORDER_NOT_FOUND, and with NO_ORDER_LOOKUP when the shop's
 * commerce platform cannot look up orders.
 */
export async function getEligibility(
  context: ActionContext,
  { order, email }: EligibilityQuery,
): Promise<Eligibility> {
  const call = { ...callerOf(context), order, ...(email !== undefined && { email }) };
  const { eligibility } = await context.services.returns.getEligibility(call, { timeoutMs });
  return sent(eligibility, 'eligibility');
}

/**
 * Submits a return by the policy in force. A submission that states its order is only for shops whose commerce platform
 * cannot look up orders, so that nobody states prices that the platform knows.
 *
 * @param o.key 1 to 200 characters. A repeat with the same key and content returns the first return, and `repeated`.
 * @throws DomainError INVALID_FIELD in the terms of the body; else as the RPC rejects.
 */
export async function submitReturn(
  context: ActionContext,
  body: SubmissionBody,
  o: { readonly key: string },
): Promise<{ readonly return: Return; readonly repeated: boolean }> {
  const overrides = body.override_policy === true;
  if (overrides) context.noteChanges?.([{ field: 'override_policy', to: 'true' }]);
  const { access } = context;
  const request = {
    ...callerOf(context),
    ...(access?.submitter && { submitter: access.submitter }),
    idempotencyKey: o.key,
    policy: overrides ? PolicyUse.OVERRIDE : PolicyUse.APPLY,
    ...(body.order ? stated(body.order, body.items) : found(body)),
    outcome: body.outcome ? OUTCOME.fromText(body.outcome.replace('+', '_')) : Outcome.UNSPECIFIED,
    returnMethod: body.return_method
      ? METHOD.fromText(body.return_method)
      : ReturnMethod.UNSPECIFIED,
    type: body.type ? TYPE.fromText(body.type) : ReturnType.UNSPECIFIED,
    destinationId: BigInt(body.destination_id ?? 0),
    packageReference: body.package_reference ?? '',
    upsellPayment: body.upsell_payment
      ? UPSELL.fromText(body.upsell_payment)
      : UpsellPayment.UNSPECIFIED,
    upsellPaymentReference: body.upsell_payment_reference ?? '',
  };
  const response = await context.services.returns.submitReturn(request, { timeoutMs });
  return { return: sent(response.return, 'return'), repeated: response.repeated };
}

/** The part of a submission whose order the platform finds. */
function found(body: SubmissionBody): Submission {
  const email = body.email ?? '';
  return {
    findOrder: true,
    order: {
      name: body.order_name ?? '',
      providerOrderId: BigInt(body.provider_order_id ?? 0),
    },
    ...(email !== '' && { orderEmail: email }),
    lines: (body.items ?? []).map(lineOf),
  };
}

function lineOf(item: Item): Line {
  return {
    providerLineItemId: BigInt(item.provider_line_item_id ?? 0),
    sku: item.sku ?? '',
    quantity: item.quantity,
    reason: item.reason ?? '',
    comment: item.comment ?? '',
    outcome: item.outcome ? LINE_OUTCOME.fromText(item.outcome) : LineOutcome.UNSPECIFIED,
    exchangeVariant: item.exchange_variant ?? '',
  };
}

/** The part of a submission that states its order. Without items, all of its lines come back. */
function stated(order: StatedOrder, items: SubmissionBody['items']): Submission {
  const currency = order.currency.toUpperCase();
  const presentment = (order.presentment_currency ?? '').toUpperCase() || currency;
  const { customer, lines } = order;
  return {
    statesOrder: true,
    order: { name: order.name, providerOrderId: BigInt(order.provider_order_id) },
    currency,
    presentmentCurrency: presentment,
    ...(customer && {
      customer: {
        ...(customer.email ? { email: customer.email } : {}),
        ...(customer.first_name ? { firstName: customer.first_name } : {}),
        ...(customer.last_name ? { lastName: customer.last_name } : {}),
        ...(customer.address && { address: addressOf(customer.address) }),
      },
    }),
    lines: items
      ? items.map((item, n) => {
          const at = lineIn(lines, item, n);
          const line = lines[at] as StatedLine;
          if (item.quantity > line.quantity) {
            const rule = `must be at most ${line.quantity}, which were ordered`;
            throw invalidField(`items[${n}].quantity`, rule);
          }
          return {
            ...lineOf(item),
            ...statedLine(line, at, { quantity: item.quantity, currency, presentment }),
          };
        })
      : lines.map((line, at) =>
          statedLine(line, at, { quantity: line.quantity, currency, presentment }),
        ),
  };
}

/** Returns the place of the order line of an item. @throws DomainError INVALID_FIELD when there is none, or several. */
function lineIn(lines: readonly StatedLine[], item: Item, n: number): number {
  const id = item.provider_line_item_id ?? undefined;
  const places = lines.flatMap((line, at) => {
    const isIt = id === undefined ? line.sku === item.sku : line.provider_line_item_id === id;
    return isIt ? [at] : [];
  });
  const [at] = places;
  const field = `items[${n}].${id === undefined ? 'sku' : 'provider_line_item_id'}`;
  if (at === undefined) throw invalidField(field, 'is not in the order');
  if (places.length > 1) throw invalidField(field, 'is in the order more than once');
  return at;
}

interface Units {
  readonly quantity: number;
  readonly currency: string;
  readonly presentment: string;
}

const AMOUNTS = {
  price: 'price',
  discount: 'discount',
  tax: 'tax',
  refundItem: 'refund_item',
  refundTax: 'refund_tax',
  refundShipping: 'refund_shipping',
  refundShippingTax: 'refund_shipping_tax',
} as const;
type AmountField = (typeof AMOUNTS)[keyof typeof AMOUNTS];

/** An order line with the share of some of its units in its amounts. */
function statedLine(line: StatedLine, at: number, units: Units): Line {
  const amounts = Object.entries(AMOUNTS).flatMap(([name, field]) =>
    line[field] ? [[name, sharedAmount(line, { at, field, units })]] : [],
  );
  return {
    providerLineItemId: BigInt(line.provider_line_item_id),
    productId: BigInt(line.product_id ?? 0),
    variantId: BigInt(line.variant_id ?? 0),
    sku: line.sku ?? '',
    lineItemTitle: line.title ?? '',
    variantTitle: line.variant_title ?? '',
    image: line.image ?? '',
    barcode: line.barcode ?? '',
    quantity: units.quantity,
    orderedQuantity: line.quantity,
    ...Object.fromEntries(amounts),
  };
}

/** Price, discount and tax are shared as one value, so that the shares of all units never add up to more than it. */
const isOfValue = (field: AmountField): field is keyof LineValue => field in ZERO_VALUE;

function sharedAmount(
  line: StatedLine,
  o: { readonly at: number; readonly field: AmountField; readonly units: Units },
) {
  const { field } = o;
  const { quantity, ...currencies } = o.units;
  const share = (text: string, side: 'shop' | 'presentment') => {
    const currency = side === 'shop' ? currencies.currency : currencies.presentment;
    // The service rejects an unknown currency, and units that are more than the ordered ones.
    if (quantity >= line.quantity || decimalsOf(currency) === undefined) return text;
    const minor = (of: AmountField) =>
      parseAmount(`order.lines[${o.at}].${of}.${side}`, line[of]?.[side] || '0', currency);
    const value = isOfValue(field)
      ? { price: minor('price'), discount: minor('discount'), tax: minor('tax') }
      : { ...ZERO_VALUE, price: minor(field) };
    const shared = shareOf({ units: line.quantity, value }, quantity);
    return formatAmount(shared[isOfValue(field) ? field : 'price'], currency);
  };
  const { shop = '', presentment } = line[field] ?? {};
  return {
    shop: share(shop, 'shop'),
    ...(presentment && { presentment: share(presentment, 'presentment') }),
  };
}
