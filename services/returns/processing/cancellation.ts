import type pg from 'pg';
import type { Return as Details } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { allInOrder } from '../../platform/all-in-order.ts';
import { committing, inTransaction, together } from '../../platform/postgres.ts';
import { type CommerceProvider, type MadeOrder, NO_PROVIDER } from '../commerce/provider.ts';
import type { Providers } from '../commerce/providers.ts';
import { isInstantRefundKept } from '../instant-refunds/instant-refunds-store.ts';
import { cancelOpenLabelRequest } from '../labels/label-request-store.ts';
import { ASK_A_PERSON, isLive, Return } from '../return.ts';
import { changeReturn } from '../store/change.ts';
import { loadReturn } from '../store/load.ts';
import { intendCancellation, requestedOf } from './cancellation-plan.ts';
import { type Job, lockReturnOf } from './jobs.ts';
import { recordNoEffect, showAndFinish } from './outcomes.ts';
import { findEarlier, type PerformDeps, performStep, recordResult } from './perform.ts';
import { NotProcessable, type Step } from './plan.ts';

const MORE_WAS_MADE =
  'more than its exchange order was made for the return, which a cancellation cannot undo';
const MORE_IS_UNKNOWN = `another request to the commerce provider has an unknown outcome. Process the return again; ${ASK_A_PERSON}`;
const KEPT = 'the shopper keeps an instant refund, so the return cannot be cancelled';

interface Prepared {
  /** The return without its line items. */
  readonly details: Details;
  readonly commerce: CommerceProvider;
  /** The exchange order; undefined while the outcome of its request is unknown. */
  readonly order: MadeOrder | undefined;
  readonly isOrderCancelled: boolean;
  readonly steps: { readonly exchange: Step; readonly cancellation: Step };
}

/**
 * Cancels the exchange order of a return at the commerce provider, and then the return. An order whose request has an
 * unknown outcome is searched for first. If it was not made, there is nothing to cancel but the return.
 *
 * @param o.onRequest is called with each step before something is requested for it, and with undefined after its result
 *   is recorded.
 * @throws NotProcessable; CommerceFailure; LeaseLost.
 */
export async function cancelWithOrder(
  deps: { readonly pool: pg.Pool; readonly providers: Providers },
  job: Job,
  { onRequest }: { readonly onRequest: (step: Step | undefined, of: CommerceProvider) => void },
): Promise<void> {
  const { pool } = deps;
  const prepared = await prepare(pool, job, deps.providers);
  if (prepared) {
    const { commerce, steps, isOrderCancelled } = prepared;
    const performing = performingOf(pool, job, prepared);
    onRequest(steps.exchange, commerce);
    const order = prepared.order ?? (await findOrder(performing(steps.exchange)));
    onRequest(undefined, commerce);
    if (order && !isOrderCancelled) {
      onRequest(steps.cancellation, commerce);
      await performStep(performing(steps.cancellation, order));
      onRequest(undefined, commerce);
    }
  }
  await close(pool, job);
}

/** Undefined when the provider was requested nothing, so that there is nothing to cancel but the return. */
function prepare(pool: pg.Pool, job: Job, providers: Providers): Promise<Prepared | undefined> {
  return inTransaction(pool, async (tx) => {
    const [, details, requested, isKept] = await together(tx, () =>
      allInOrder([
        lockReturnOf(tx, job),
        loadReturn(tx, job.shopId, job.returnId),
        requestedOf(tx, job),
        isInstantRefundKept(tx, job),
      ]),
    );
    if (!details || !isLive(details.state)) throw new NotProcessable('the return has ended');
    if (requested.others === 'made') throw new NotProcessable(MORE_WAS_MADE);
    if (requested.others === 'unknown') throw new NotProcessable(MORE_IS_UNKNOWN);
    if (isKept) throw new NotProcessable(KEPT);
    const { exchange, isOrderCancelled } = requested;
    if (!exchange) return undefined;
    const commerce = await providers.of(tx, job);
    if (!commerce) throw new NotProcessable(NO_PROVIDER);
    const steps = await committing(tx, () =>
      intendCancellation(tx, job, { exchange: exchange.step }),
    );
    const { order } = exchange;
    return { details: { ...details, lineItems: [] }, commerce, order, isOrderCancelled, steps };
  });
}

function performingOf(pool: pg.Pool, job: Job, { details, commerce }: Prepared) {
  return (step: Step, orderToCancel?: MadeOrder): PerformDeps => ({
    pool,
    job,
    step,
    prepared: { details, commerce, lines: [], stock: [], ...(orderToCancel && { orderToCancel }) },
  });
}

/** The order of a request with an unknown outcome, also when it has another amount; undefined when it was not made. */
async function findOrder(o: PerformDeps): Promise<MadeOrder | undefined> {
  const found = await findEarlier(o);
  if (found) {
    await recordResult(o, found);
    return { id: BigInt(found.id), name: found.name };
  }
  await inTransaction(o.pool, async (tx) => {
    await lockReturnOf(tx, o.job);
    await committing(tx, () => recordNoEffect(tx, o.job, o.step));
  });
  return undefined;
}

/** Ends the job and cancels the return, in one transaction. */
async function close(pool: pg.Pool, job: Job): Promise<void> {
  await changeReturn(pool, job, async (tx, current) => {
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
