import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import type { FindOrderRequest } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { SHORT_TEXT_MAX } from '../contract/limits.ts';
import { onlyRow } from '../platform/postgres/only-row.ts';
import { DomainError, invalidField } from '../platform/values/errors.ts';
import { MAX_ID } from '../platform/values/ids.ts';
import { callerShape, parseInput, text } from '../platform/values/input.ts';
import { type LineValue, netOf } from '../platform/values/line-value.ts';
import { type Both, formatAmount, inBoth } from '../platform/values/money.ts';
import { blank, normalForm } from '../platform/values/text.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type FoundOrder,
  isFinal,
  LedgerUnavailable,
  NoLookUp,
  type OrderSelector,
} from './provider.ts';
import type { Providers } from './providers.ts';
import { type Elsewhere, elsewhereOf, goodwillOf, linesLeft, shippingLeft } from './remaining.ts';
import { withReported } from './reported-refunds.ts';

/** Time limit of a look-up, below that of the RPC. Milliseconds. */
const CALL_LIMIT_MS = 8_000;

export interface FindOrderDeps {
  readonly pool: pg.Pool;
  readonly providers: Pick<Providers, 'forLookUps'>;
}

/** The answer of the shop's commerce provider about an order. */
export interface OrderAnswer {
  /** Whether the shop has a provider that looks orders up. */
  readonly looksUp: boolean;
  /** Undefined when the provider has no such order. */
  readonly order?: FoundOrder | undefined;
  /** When the provider was asked, by the clock of PostgreSQL. */
  readonly askedAt: string;
  /** When the provider answered, by the clock of this process. Milliseconds of `performance.now()`. */
  readonly at: number;
}

/**
 * Looks up an order at the shop's commerce provider.
 *
 * @throws DomainError COMMERCE_FAILED: UNAVAILABLE when the provider does not answer, FAILED_PRECONDITION when it
 *   rejects the look-up.
 */
export async function findOrder(deps: FindOrderDeps, asked: OrderSelector): Promise<OrderAnswer> {
  const commerce = await providerOf(deps, asked);
  return ask(deps, commerce, asked).catch(asDomainError);
}

function providerOf({ pool, providers }: FindOrderDeps, { shopId }: OrderSelector) {
  return providers.forLookUps(pool, shopId).catch(asDomainError);
}

/** Asks a provider for an order. @throws CommerceFailure; LedgerUnavailable. */
export async function ask(
  { pool }: Pick<FindOrderDeps, 'pool'>,
  commerce: CommerceProvider | undefined,
  asked: OrderSelector,
): Promise<OrderAnswer> {
  const { askedAt } = onlyRow(
    await pool.query<{ askedAt: string }>('select now()::text as "askedAt"'),
  );
  if (!commerce?.lookUp) return { looksUp: false, askedAt, at: performance.now() };
  const signal = AbortSignal.timeout(CALL_LIMIT_MS);
  const found = await commerce.lookUp(normal(asked), signal);
  const at = performance.now();
  const { shopId } = asked;
  const order = found && (await withReported(pool, { shopId, order: found, askedAt }));
  return { looksUp: true, order, askedAt, at };
}

function normal(asked: OrderSelector): OrderSelector {
  return 'name' in asked ? { ...asked, name: normalForm(asked.name) } : asked;
}

/**
 * Returns the selector of an order that a request names by its name or its id.
 *
 * @param path of the order in the request, such as `order.`.
 * @throws DomainError INVALID_ARGUMENT unless it has exactly one of them.
 */
export function selectorOf(
  shopId: bigint,
  { name, providerOrderId: id }: { readonly name: string; readonly providerOrderId: bigint },
  path = '',
): OrderSelector {
  if (id === 0n && blank(name)) throw invalidField(`${path}name`, 'is required');
  if (id === 0n) return { shopId, name };
  if (name !== '') throw invalidField(`${path}name`, 'must be absent with provider_order_id');
  if (id >= 1n && id <= MAX_ID) return { shopId, id };
  throw invalidField(`${path}provider_order_id`, 'must be an id from 1 to 2^53-1');
}

export function noOrderLookUp(): DomainError {
  return new DomainError(
    Code.FailedPrecondition,
    ErrorReason.NO_ORDER_LOOKUP,
    "the shop's commerce provider looks up no orders",
  );
}

/** Looks orders up, and keeps each answer for seconds, so that many questions about an order are one at the provider. */
export interface OrderFinder {
  /**
   * Looks up an order. A provider that turns out to support no look-ups is `looksUp: false`.
   *
   * @param o.maxAgeMs how old an answer may be that is used again; by default 5 s. Milliseconds.
   * @throws DomainError COMMERCE_FAILED, see {@link findOrder}.
   */
  find(asked: OrderSelector, o?: { readonly maxAgeMs?: number }): Promise<OrderAnswer>;
}

/** How old an answer may be that is used again. Milliseconds. */
const MAX_AGE_MS = 5_000;
/** Maximum number of answers of one provider in memory. Above it, the oldest is removed. */
const MAX_ANSWERS = 200;

interface Kept {
  readonly answer: Promise<OrderAnswer>;
  /** When the provider answered, in milliseconds of `performance.now()`; infinite until then. */
  at: number;
}

/** Creates a finder. The keys of its answers have the shop, so it never tells one shop of another. */
export function createOrderFinder(deps: FindOrderDeps): OrderFinder {
  const known = new WeakMap<CommerceProvider, Map<string, Kept>>();
  return {
    async find(asked, { maxAgeMs = MAX_AGE_MS } = {}) {
      const commerce = await providerOf(deps, asked);
      if (!commerce?.lookUp) return ask(deps, undefined, asked);
      const answers = known.get(commerce) ?? new Map<string, Kept>();
      known.set(commerce, answers);
      const key = keyOf(normal(asked));
      const kept = answers.get(key);
      if (kept && performance.now() - kept.at <= maxAgeMs) return kept.answer;
      const answer = ask(deps, commerce, asked).catch(withoutLookUp).catch(asDomainError);
      const entry: Kept = { answer, at: Number.POSITIVE_INFINITY };
      answers.delete(key);
      answers.set(key, entry);
      const [oldest] = answers.keys();
      if (answers.size > MAX_ANSWERS && oldest !== undefined) answers.delete(oldest);
      answer.then(
        ({ at }) => {
          entry.at = at;
        },
        () => {
          if (answers.get(key) === entry) answers.delete(key);
        },
      );
      return answer;
    },
  };
}

function keyOf(asked: OrderSelector): string {
  return 'name' in asked ? `${asked.shopId} name ${asked.name}` : `${asked.shopId} id ${asked.id}`;
}

function withoutLookUp(error: unknown): OrderAnswer {
  if (error instanceof NoLookUp) return { looksUp: false, askedAt: '', at: performance.now() };
  throw error;
}

/**
 * Converts an error of a look-up. @throws DomainError COMMERCE_FAILED for a failure of the provider, NO_ORDER_LOOKUP
 * when it supports no look-ups; other errors unchanged.
 */
function asDomainError(error: unknown): never {
  if (!(error instanceof CommerceFailure || error instanceof LedgerUnavailable)) throw error;
  const code = isFinal(error) ? Code.FailedPrecondition : Code.Unavailable;
  const { COMMERCE_FAILED, NO_ORDER_LOOKUP } = ErrorReason;
  const reason = error instanceof NoLookUp ? NO_ORDER_LOOKUP : COMMERCE_FAILED;
  throw new DomainError(code, reason, error.message, { cause: error });
}

const input = z.object({
  ...callerShape,
  name: text(SHORT_TEXT_MAX),
  providerOrderId: z.bigint(),
});

/**
 * Implements the RPC for look-ups, which people use.
 *
 * @throws DomainError INVALID_ARGUMENT; COMMERCE_FAILED as {@link findOrder}; NO_ORDER_LOOKUP for a shop whose provider
 *   does not support look-ups.
 */
export async function findOrderOnRequest(deps: FindOrderDeps, request: FindOrderRequest) {
  const { shopId, ...by } = parseInput(input, request);
  const { looksUp, order, askedAt } = await findOrder(deps, selectorOf(shopId, by));
  if (!looksUp) throw noOrderLookUp();
  if (!order) return {};
  return { order: orderMessage(order, await elsewhereOf(deps.pool, { shopId, order, askedAt })) };
}

function orderMessage(order: FoundOrder, elsewhere: Elsewhere) {
  const lines = linesLeft(order, elsewhere);
  const left = shippingLeft(order, elsewhere);
  const goodwill = goodwillOf(order, elsewhere);
  const { id, name, currencies, shipping, unpaid } = order;
  const amount = (read: (side: keyof Both<bigint>) => bigint) =>
    inBoth((side) => formatAmount(read(side), currencies[side]));
  const value = (values: Both<LineValue>, shares: Both<readonly bigint[]>, n: number) => ({
    price: amount((side) => values[side].price),
    discount: amount((side) => values[side].discount),
    tax: amount((side) => values[side].tax),
    total: amount((side) => netOf(values[side])),
    shipping: amount((side) => shares[side][n] ?? 0n),
  });
  const paid = inBoth((side) =>
    spread(
      shipping?.paid[side],
      lines.map((line) => netOf(line.paid[side])),
    ),
  );
  const rest = inBoth((side) =>
    spread(
      left[side],
      lines.map((line) => netOf(line.valueLeft[side])),
    ),
  );
  return {
    id,
    name,
    currency: currencies.shop,
    presentmentCurrency: currencies.presentment,
    ...(shipping && {
      shippingPaid: amount((side) => shipping.paid[side]),
      shippingLeft: amount((side) => left[side]),
    }),
    ...(order.otherRefunds && { refundedForNoLine: amount((side) => goodwill[side]) }),
    ...(unpaid && { unpaid: amount((side) => unpaid[side]) }),
    lines: lines.map((line, n) => ({
      id: line.id,
      title: line.title,
      sku: line.sku,
      productId: line.productId ?? 0n,
      variantId: line.variantId ?? 0n,
      quantity: line.quantity,
      returnable: line.returnable,
      unitPrice: amount((side) => netOf(line.paid[side]) / BigInt(Math.max(1, line.quantity))),
      paid: value(line.paid, paid, n),
      left: value(line.valueLeft, rest, n),
      unitsLeft: line.unitsLeft,
    })),
  };
}

/** Spreads an amount over lines by their weights. The shares add up to the amount. */
function spread(amount = 0n, weights: readonly bigint[]): bigint[] {
  const whole = weights.reduce((sum, weight) => sum + weight, 0n);
  let [reached, given] = [0n, 0n];
  return weights.map((weight) => {
    reached += weight;
    const share = whole === 0n ? 0n : (amount * reached) / whole - given;
    given += share;
    return share;
  });
}
