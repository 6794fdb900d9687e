import { allInOrder } from '../../platform/all-in-order.ts';
import { committing, inTransaction, together } from '../../platform/postgres.ts';
import { type MadeOrder, NO_PROVIDER } from '../commerce/provider.ts';
import { isInstantRefundKept } from '../instant-refunds/instant-refunds-store.ts';
import { cancelOpenLabelRequest } from '../labels/label-request-store.ts';
import { ASK_A_PERSON, isOpenOrInReview, Return } from '../return.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { intendCancellation, showAndFinish } from './effect-store.ts';
import { requestedOf } from './fulfilment.ts';
import { type Job, lockReturnOf } from './jobs.ts';
import { cancellationStep, NotProcessable, type Step } from './plan.ts';
import type { PrepareDeps, Prepared } from './prepare.ts';

const MORE_WAS_MADE =
  'more than its exchange order was made for the return, which a cancellation cannot undo';
const MORE_IS_UNKNOWN = `another request to the commerce provider has an unknown outcome. Process the return again; ${ASK_A_PERSON}`;
const KEPT = 'the shopper keeps an instant refund, so the return cannot be cancelled';

/** The data that a run needs to cancel the exchange order of a return. It has no line items and no goods. */
export interface PreparedCancellation
  extends Pick<Prepared, 'details' | 'lines' | 'stock' | 'commerce'> {
  /** The exchange order; undefined while the outcome of its request is unknown. */
  readonly order: MadeOrder | undefined;
  readonly isOrderCancelled: boolean;
  readonly steps: { readonly exchange: Step; readonly cancellation: Step };
}

/**
 * Checks again, under the row lock, whether the return can be cancelled together with its exchange order. Records the
 * step that cancels the order.
 *
 * @returns undefined when no exchange order was requested, so that only the return is cancelled.
 * @throws NotProcessable; LeaseLost.
 */
export function prepareCancellation(
  { pool, store, providers }: PrepareDeps,
  job: Job,
): Promise<PreparedCancellation | undefined> {
  return inTransaction(pool, async (tx) => {
    const [locked, details, requested, isKept] = await together(tx, () =>
      allInOrder([
        lockReturnOf(tx, job),
        store.load(tx, job.shopId, job.returnId),
        requestedOf(tx, job),
        isInstantRefundKept(tx, job),
      ]),
    );
    if (!details || !isOpenOrInReview(details.state))
      throw new NotProcessable('the return has ended');
    if (requested.others === 'made') throw new NotProcessable(MORE_WAS_MADE);
    if (requested.others === 'unknown') throw new NotProcessable(MORE_IS_UNKNOWN);
    if (isKept) throw new NotProcessable(KEPT);
    const { exchange, isOrderCancelled } = requested;
    if (!exchange) return undefined;
    const commerce = await providers.of(tx, job);
    if (!commerce) throw new NotProcessable(NO_PROVIDER);
    const { step, order } = exchange;
    const cancellation = cancellationStep({ ...job, nonce: locked.nonce }, step.currency);
    const atPlan = { newsAtPlan: undefined, connectionAtPlan: locked.connection };
    const steps = await committing(tx, () =>
      intendCancellation(tx, job, { exchange: step, cancellation, atPlan }),
    );
    const whole = { details: { ...details, lineItems: [] }, lines: [], stock: [] };
    return { ...whole, commerce, order, isOrderCancelled, steps };
  });
}

/**
 * Ends the job and cancels the return, in one transaction.
 *
 * @throws NotProcessable when a request to the provider has an unknown outcome; LeaseLost.
 */
export async function closeAsCancelled(store: ReturnStore, job: Job): Promise<void> {
  await store.change(job, async (tx, current) => {
    const [isEverythingKnown, events] = await together(tx, () =>
      allInOrder([showAndFinish(tx, job), cancelOpenLabelRequest(tx, job)]),
    );
    if (!isEverythingKnown) throw new NotProcessable(MORE_IS_UNKNOWN);
    const text = 'The return was cancelled';
    return {
      value: undefined,
      stateChanges: [new Return(current).cancelAfterOrder()],
      events,
      timeline: [{ returnId: current.id, kind: 'return.cancelled', text }],
    };
  });
}
