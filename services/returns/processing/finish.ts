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
import { allInOrder } from '../../platform/all-in-order.ts';
import { formatAmount, minorOf } from '../../platform/money.ts';
import { type Queryable, together } from '../../platform/postgres.ts';
import { cancelOpenLabelRequest } from '../labels/label-request-store.ts';
import { Return } from '../return.ts';
import type { DetailEvent } from '../store/append-events.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { recordNoEffect, showAndFinish, storable } from './effect-store.ts';
import { showEffects } from './fulfilment.ts';
import { finishFailed, type Job } from './jobs.ts';
import { NotProcessable, type Step } from './plan.ts';
import { restockItems } from './restock.ts';

const UNKNOWN_OUTCOME =
  "an earlier request to the commerce provider has an unknown outcome and is no longer part of the return. Look at the provider's records, and have an operator record what they show (`commerce settle`)";

export interface Closing {
  readonly job: Job;
  /** Whether and by whom goods are restocked. */
  readonly restockMode: RestockMode;
  readonly giftCardsAreExternal: boolean;
  /** The stock location of lines without a location of their own; 0 when unknown. */
  readonly location: bigint;
}

/**
 * Closes a return whose effects are all made, and publishes its events, in one transaction. These are `return.closed`;
 * `restock.requested` when the shop restocks by event; `giftcard.requested` when an external provider issues gift
 * cards; and `label.request.cancelled` for an open label request.
 *
 * @throws NotProcessable, also when a request to the provider has an unknown outcome; LeaseLost.
 */
export async function closeReturn(store: ReturnStore, o: Closing): Promise<void> {
  const { job } = o;
  await store.change(job, async (tx, current) => {
    if (current.state !== ReturnState.OPEN) throw new NotProcessable('the return is not open');
    const [isEverythingKnown, giftCards, labels] = await together(tx, () =>
      allInOrder([
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
