import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import type { FindOrderRequest } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { DomainError, stateForbids } from '../../platform/errors.ts';
import { callerShape, parseInput, requiredText } from '../../platform/input.ts';
import { type LineValue, netOf } from '../../platform/line-value.ts';
import { type Both, formatAmount, inBoth } from '../../platform/money.ts';
import { onlyRow } from '../../platform/only-row.ts';
import { normalForm } from '../../platform/text.ts';
import { CommerceFailure, type FoundOrder, isFinal } from './provider.ts';
import type { Providers } from './providers.ts';
import { type Elsewhere, elsewhereOf, goodwillOf, linesLeft, shippingLeft } from './remaining.ts';

/** Time limit of a look-up, below that of the RPC. Milliseconds. */
const CALL_LIMIT_MS = 8_000;

export interface FindOrderDeps {
  readonly pool: pg.Pool;
  readonly providers: Pick<Providers, 'connected'>;
}

/** The answer of the shop's commerce provider about an order name. */
export interface OrderAnswer {
  /** Whether the shop has a provider that looks orders up. */
  readonly looksUp: boolean;
  /** Undefined when the provider has no order with this name. */
  readonly order?: FoundOrder | undefined;
  /** When the provider was asked, by the clock of PostgreSQL. */
  readonly askedAt: string;
}

/**
 * Looks up an order by its name at the shop's commerce provider.
 *
 * @throws DomainError COMMERCE_FAILED: UNAVAILABLE when the provider does not answer, FAILED_PRECONDITION when it
 *   rejects the look-up.
 */
export async function findOrder(
  { pool, providers }: FindOrderDeps,
  { shopId, name }: { readonly shopId: bigint; readonly name: string },
): Promise<OrderAnswer> {
  const connected = await providers.connected(pool, shopId);
  const { lookUp } = connected?.commerce ?? {};
  const { askedAt } = onlyRow(
    await pool.query<{ askedAt: string }>('select now()::text as "askedAt"'),
  );
  if (!lookUp) return { looksUp: false, askedAt };
  const signal = AbortSignal.timeout(CALL_LIMIT_MS);
  const asked = { shopId, name: normalForm(name) };
  return { looksUp: true, order: await lookUp(asked, signal).catch(asDomainError), askedAt };
}

/**
 * Converts an error of a look-up. @throws DomainError COMMERCE_FAILED for a failure of the provider; other errors
 * unchanged.
 */
function asDomainError(error: unknown): never {
  if (!(error instanceof CommerceFailure)) throw error;
  const code = isFinal(error) ? Code.FailedPrecondition : Code.Unavailable;
  const { COMMERCE_FAILED } = ErrorReason;
  throw new DomainError(code, COMMERCE_FAILED, error.message, { cause: error });
}

const input = z.object({ ...callerShape, name: requiredText(SHORT_TEXT_MAX) });

/**
 * Implements the RPC for look-ups, which people use.
 *
 * @throws DomainError INVALID_ARGUMENT; COMMERCE_FAILED as {@link findOrder}; STATE_FORBIDS for a shop whose provider
 *   does not support look-ups.
 */
export async function findOrderOnRequest(deps: FindOrderDeps, request: FindOrderRequest) {
  const { shopId, name } = parseInput(input, request);
  const { looksUp, order, askedAt } = await findOrder(deps, { shopId, name });
  if (!looksUp) throw stateForbids("the shop's commerce provider looks up no orders");
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
