import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code as StatusCode } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Eligibility,
  EligibilitySchema,
  type GetEligibilityRequest,
  type Policy,
  PolicySchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  noOrderLookUp,
  type OrderAnswer,
  type OrderFinder,
  selectorOf,
} from '../../commerce/find-order.ts';
import type { FoundOrder } from '../../commerce/provider.ts';
import { type Elsewhere, elsewhereOf, linesLeft } from '../../commerce/remaining.ts';
import { EMAIL_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError } from '../../platform/values/errors.ts';
import { callerShape, parseInput, text } from '../../platform/values/input.ts';
import { netOf } from '../../platform/values/line-value.ts';
import { formatAmount } from '../../platform/values/money.ts';
import { normalForm } from '../../platform/values/text.ts';
import { valuesLeft } from '../submit/look-up.ts';
import { type JudgedLine, judge, offered, sentenceOf } from './eligibility.ts';
import { loadPolicy } from './policy-store.ts';

const input = z.object({
  ...callerShape,
  orderName: text(SHORT_TEXT_MAX),
  providerOrderId: z.bigint(),
  email: text(EMAIL_MAX).optional(),
  shopper: text(EMAIL_MAX).optional(),
});

/**
 * Says what of an order may be returned now, as the policy in force says. Changes nothing.
 *
 * @param o.refusesNothing whether the policy is left out.
 *
 * @throws DomainError INVALID_ARGUMENT; ORDER_NOT_FOUND; NO_ORDER_LOOKUP; COMMERCE_FAILED.
 */
export async function getEligibility(
  { pool, orders }: { readonly pool: pg.Pool; readonly orders: OrderFinder },
  request: Omit<GetEligibilityRequest, '$typeName'>,
  { refusesNothing = false }: { readonly refusesNothing?: boolean } = {},
): Promise<Eligibility> {
  const { case: by, value } = request.order;
  const { shopId, orderName, providerOrderId, ...parsed } = parseInput(input, {
    ...request,
    orderName: by === 'orderName' ? value : '',
    providerOrderId: by === 'providerOrderId' ? value : 0n,
  });
  const asked = selectorOf(shopId, { name: orderName, providerOrderId }, 'order_');
  const answer = await orders.find(asked);
  const order = requireOrder(answer, parsed.email);
  if (parsed.shopper !== undefined && !isOf(order, parsed.shopper)) throw orderNotFound();
  const [elsewhere, isCancelled, { policy, version }] = await Promise.all([
    elsewhereOf(pool, { shopId, order, askedAt: answer.askedAt }),
    isCancelledThere(pool, shopId, order.id),
    refusesNothing ? { policy: create(PolicySchema), version: 0n } : loadPolicy(pool, shopId),
  ]);
  const now = new Date();
  const judged = isCancelled ? { ...order, cancelledAt: order.cancelledAt ?? now } : order;
  return create(EligibilitySchema, {
    ...orderPart(order, policy),
    policyVersion: version,
    lines: linesPart({ order: judged, elsewhere, policy, now }),
  });
}

/**
 * Returns the order in an answer.
 *
 * @param email if present, the order must have it, in any case of letters. An order without one passes.
 * @throws DomainError NO_ORDER_LOOKUP; ORDER_NOT_FOUND, alike for no order and for another e-mail address.
 */
export function requireOrder({ looksUp, order }: OrderAnswer, email?: string): FoundOrder {
  if (!looksUp) throw noOrderLookUp();
  const isOther =
    email !== undefined && order?.email !== undefined && folded(order.email) !== folded(email);
  if (order && !isOther) return order;
  throw orderNotFound();
}

function orderNotFound(): DomainError {
  const { ORDER_NOT_FOUND } = ErrorReason;
  return new DomainError(StatusCode.NotFound, ORDER_NOT_FOUND, 'no such order');
}

/** Whether a shopper states the e-mail address of the order, or its postal code if it has no address. */
function isOf({ email, postalCode }: FoundOrder, stated: string): boolean {
  if (email !== undefined) return folded(email) === folded(stated);
  return postalCode !== undefined && compact(postalCode) === compact(stated);
}

/** A postal code without what people leave out, such as the blank of `N1 1AA`. */
const compact = (code: string): string => folded(code).replace(/[\s-]/g, '');

const folded = (email: string): string => normalForm(email).toLowerCase();

/** Whether the provider has reported that it has cancelled the order. */
async function isCancelledThere(db: Queryable, shopId: bigint, orderId: bigint): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'order-cancelled-there',
    text: `select from inbound_orders
            where shop_id = $1 and provider_order_id = $2 and cancelled_at is not null`,
    values: [shopId, orderId],
  });
  return rowCount === 1;
}

/** What policies need of the lines of an order. */
export function judgedLines(order: FoundOrder, elsewhere: Elsewhere): JudgedLine[] {
  return linesLeft(order, elsewhere).map((line) => ({
    ...line,
    inOpenReturns: line.unitsOpen,
    returned: line.unitsClosed,
    refundedThere: line.unitsThere,
  }));
}

const ALL_METHODS = [
  ReturnMethod.MAIL,
  ReturnMethod.IN_STORE,
  ReturnMethod.DROP_OFF,
  ReturnMethod.KEEP_ITEM,
] as const;

/** The return methods that a policy offers. */
export function methodsOf({ returnMethods }: Policy): readonly ReturnMethod[] {
  return returnMethods.length > 0 ? returnMethods : ALL_METHODS;
}

function orderPart({ id, name, currencies, orderedAt }: FoundOrder, policy: Policy) {
  return {
    orderName: name,
    providerOrderId: id,
    ...(orderedAt && { orderedAt: timestampFromDate(orderedAt) }),
    currency: currencies.shop,
    presentmentCurrency: currencies.presentment,
    outcomes: offered(policy.outcomes),
    returnMethods: [...methodsOf(policy)],
  };
}

function linesPart(o: {
  readonly order: FoundOrder;
  readonly elsewhere: Elsewhere;
  readonly policy: Policy;
  readonly now: Date;
}) {
  const { order, elsewhere } = o;
  const lines = judgedLines(order, elsewhere);
  const verdicts = judge(o.policy, { ...order, lines }, o.now);
  const units = new Map(verdicts.map(({ id, returnable }) => [id, returnable]));
  const values = valuesLeft(order, elsewhere, ({ id }) => units.get(id) ?? 0);
  const shown = (minor = 0n) => formatAmount(minor, order.currencies.presentment);
  return verdicts.map((verdict, n) => {
    const line = order.lines[n];
    const value = values[n]?.presentment;
    return {
      providerLineItemId: verdict.id,
      sku: line?.sku ?? '',
      title: line?.title ?? '',
      variantTitle: line?.variantTitle ?? '',
      image: line?.image ?? '',
      orderedQuantity: line?.quantity ?? 0,
      returnableQuantity: verdict.returnable,
      ...(verdict.windowEndsAt && { windowEndsAt: timestampFromDate(verdict.windowEndsAt) }),
      price: shown(value?.price),
      refund: shown(value && netOf(value)),
      outcomes: [...verdict.outcomes],
      reasons: verdict.reasons.map((code) => ({ code, message: sentenceOf(code) })),
    };
  });
}
