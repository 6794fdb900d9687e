import { create } from '@bufbuild/protobuf';
import {
  ProcessingFailedSchema,
  RestockRequestedSchema,
} from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  type Return as Details,
  GiftCardRequestSchema,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type MadeOrder, NO_PROVIDER } from '../../commerce/provider.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import {
  committing,
  inTransaction,
  type Queryable,
  together,
} from '../../platform/postgres/postgres.ts';
import { formatAmount, minorOf } from '../../platform/values/money.ts';
import { storePaidPart } from '../arrivals/paid-part-store.ts';
import { isInstantRefundKept } from '../instant-refunds/instant-refunds-store.ts';
import { cancelOpenLabelRequest } from '../labels/label-requests.ts';
import { ASK_A_PERSON, isOpenOrInReview, Return } from '../return.ts';
import type { DetailEvent } from '../store/append-events.ts';
import type { ReturnStore } from '../store/return-store.ts';
import {
  intendCancellation,
  type MadeStep,
  recordEffect,
  recordNoEffect,
  requestedOf,
  showAndFinish,
  showEffects,
  storable,
} from './effect-store.ts';
import { finishFailed, type Job, lockReturnOf } from './jobs.ts';
import { cancellationStep, NotProcessable, type Step } from './plan.ts';
import type { PrepareDeps, Prepared } from './prepare.ts';
import { restockItems } from './restock.ts';

const UNKNOWN_OUTCOME =
  "an earlier request to the commerce provider has an unknown outcome and is no longer part of the return. Look at the provider's records, and have an operator record what they show (`commerce settle`)";

interface Closing extends Pick<Prepared, 'units'> {
  readonly job: Job;
  /** Whether and by whom goods are restocked. */
  readonly restockMode: RestockMode;
  readonly giftCardsAreExternal: boolean;
  /** The stock location of lines without a location of their own; 0 when unknown. */
  readonly location: bigint;
  /** The last effect, which is not recorded yet; undefined when the run made none. */
  readonly made: MadeStep | undefined;
}

/**
 * Closes a return whose effects are all made, records the last of them, and publishes its events, in one transaction. Its
 * amounts are then those of its paid units. The events are `return.closed`;
 * `restock.requested` when the shop restocks by event; `giftcard.requested` when an external provider issues gift
 * cards; and `label.request.cancelled` for an open label request.
 *
 * @throws NotProcessable, also when a request to the provider has an unknown outcome; LeaseLost.
 */
export async function closeReturn(store: ReturnStore, o: Closing): Promise<void> {
  const { job } = o;
  await store.change(job, async (tx, announced) => {
    if (announced.state !== ReturnState.OPEN) throw new NotProcessable('the return is not open');
    const current = await storePaidPart(tx, announced, o.units);
    const [, isEverythingKnown, giftCards, labels] = await together(tx, () =>
      allInOrder([
        o.made ? recordEffect(tx, job, o.made) : Promise.resolve(),
        showAndFinish(tx, job),
        giftCardEvents(tx, o, current),
        cancelOpenLabelRequest(tx, job),
      ]),
    );
    if (!isEverythingKnown) throw new NotProcessable(UNKNOWN_OUTCOME);
    const events = [...restockEvents(o, current), ...giftCards, ...labels];
    const text = 'The return was processed and closed';
    return {
      value: undefined,
      stateChanges: [new Return(current).close()],
      events,
      timeline: [{ returnId: job.returnId, kind: 'return.closed', text }],
    };
  });
}

function restockEvents(o: Closing, current: Details): DetailEvent[] {
  if (o.restockMode !== RestockMode.WEBHOOK) return [];
  const items = restockItems(current, o.location);
  if (items.length === 0) return [];
  const value = create(RestockRequestedSchema, { items });
  return [
    { trigger: 'restock.requested', returnId: current.id, detail: { case: 'restock', value } },
  ];
}

async function giftCardEvents(tx: Queryable, o: Closing, current: Details): Promise<DetailEvent[]> {
  if (!o.giftCardsAreExternal) return [];
  const currency = current.presentmentCurrency;
  const amount = minorOf(current.presentmentTotals?.giftCard ?? '0', currency);
  if (amount === 0n) return [];
  const money = { value: formatAmount(amount, currency), currency };
  const id = await requestGiftCard(tx, o.job, money);
  const value = create(GiftCardRequestSchema, { id, returnId: current.id, money });
  return [
    { trigger: 'giftcard.requested', returnId: current.id, detail: { case: 'giftCard', value } },
  ];
}

async function requestGiftCard(
  tx: Queryable,
  job: Job,
  money: { value: string; currency: string },
): Promise<bigint> {
  const { rows } = await tx.query<{ id: bigint }>(
    `insert into gift_card_requests (shop_id, return_id, amount, currency)
     values ($1, $2, $3, $4) returning id`,
    [job.shopId, job.returnId, money.value, money.currency],
  );
  const [row] = rows;
  if (!row) throw new Error('a gift card request was not stored');
  return row.id;
}

/**
 * Ends a run as failed. The return stays open, its details show the effects that were made, and
 * `return.processing.failed` is published. The next process request continues with the effects that are missing.
 *
 * @param o.message what happened, for people.
 * @param o.reason why the commerce provider rejected a request, in its words.
 * @param o.withoutEffect the step whose request ended the run and surely had no effect.
 * @throws LeaseLost
 */
export async function failJob(
  store: ReturnStore,
  job: Job,
  o: {
    readonly message: string;
    readonly withoutEffect?: Step | undefined;
    readonly reason?: string | undefined;
  },
): Promise<void> {
  const { message, withoutEffect, reason } = o;
  const facts = reason === undefined ? {} : { reason: storable(reason) };
  await store.change(job, async (tx) => {
    await showEffects(tx, job);
    if (withoutEffect) await recordNoEffect(tx, job, withoutEffect);
    await tx.query({
      name: 'processing-fail',
      text: 'update returns set processing = false where shop_id = $1 and id = $2',
      values: [job.shopId, job.returnId],
    });
    await finishFailed(tx, job);
    const source = job.source === '' ? {} : { source: job.source };
    const value = create(ProcessingFailedSchema, { message, ...source });
    return {
      value: undefined,
      events: [
        {
          trigger: 'return.processing.failed',
          returnId: job.returnId,
          detail: { case: 'processingFailed', value },
        },
      ],
      timeline: [
        { returnId: job.returnId, kind: 'return.processing.failed', text: message, facts },
      ],
    };
  });
}

const MORE_WAS_MADE =
  'more than its exchange order was made for the return, which a cancellation cannot undo';
const MORE_IS_UNKNOWN = `another request to the commerce provider has an unknown outcome. Process the return again; ${ASK_A_PERSON}`;
const KEPT = 'the shopper keeps an instant refund, so the return cannot be cancelled';

/** The data that a run needs to cancel the exchange order of a return. It has no line items and no goods. */
interface PreparedCancellation extends Pick<Prepared, 'details' | 'lines' | 'stock' | 'commerce'> {
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
