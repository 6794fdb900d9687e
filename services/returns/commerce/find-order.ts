import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import type { FindOrderRequest } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { DomainError, stateForbids } from '../../platform/errors.ts';
import { callerShape, parseInput, requiredText } from '../../platform/input.ts';
import { CommerceFailure, type FoundOrder, isFinal } from './provider.ts';
import type { Providers } from './providers.ts';

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
  if (!lookUp) return { looksUp: false };
  const signal = AbortSignal.timeout(CALL_LIMIT_MS);
  return { looksUp: true, order: await lookUp({ shopId, name }, signal).catch(asDomainError) };
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
  const { looksUp, order } = await findOrder(deps, parseInput(input, request));
  if (!looksUp) throw stateForbids("the shop's commerce provider looks up no orders");
  return order ? { order: orderMessage(order) } : {};
}

function orderMessage({ id, name, currencies, lines }: FoundOrder) {
  return {
    id,
    name,
    currency: currencies.shop,
    presentmentCurrency: currencies.presentment,
    lines: lines.map(({ productId = 0n, variantId = 0n, ...line }) => ({
      ...line,
      productId,
      variantId,
    })),
  };
}
