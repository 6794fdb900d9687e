import type { Queryable } from '../platform/postgres.ts';
import { isInstantRefundKept } from './instant-refunds/instant-refunds-store.ts';
import { requestedOf } from './processing/fulfilment.ts';
import { Return, type StateChange } from './return.ts';
import type { ReturnRef } from './return-ref.ts';

/** What a cancellation of a return does. */
export interface Cancellation {
  readonly change: StateChange;
  /** Whether a job cancels the exchange order first. */
  readonly cancelsOrder: boolean;
}

/**
 * Decides what a cancellation does. A caller that then cancels must hold the row lock of the return.
 *
 * @throws DomainError STATE_FORBIDS as {@link Return.cancel} says.
 */
export async function cancellationOf(
  db: Queryable,
  details: ConstructorParameters<typeof Return>[0],
  of: ReturnRef,
): Promise<Cancellation> {
  const { exchange, isOrderCancelled, others } = await requestedOf(db, of);
  const change = new Return(details).cancel({
    fulfilment: others,
    instantRefundKept: await isInstantRefundKept(db, of),
  });
  return { change, cancelsOrder: exchange !== undefined && !isOrderCancelled };
}
