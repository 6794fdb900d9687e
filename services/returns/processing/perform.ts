import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { inTransaction } from '../../platform/postgres.ts';
import type { CommerceProvider, CommerceRequest, ExchangeItem } from '../commerce/provider.ts';
import { addTimeline } from '../store/timeline-store.ts';
import { type Job, renewAfterSuccess } from './jobs.ts';
import { type OutcomeResult, recordOutcome, resultOfOrder, resultOfRefund } from './outcomes.ts';
import type { OutcomeKind, Step } from './plan.ts';

/** Bounds a call even where the provider's adapter does not; below the lease of a job. Milliseconds. */
const CALL_LIMIT_MS = 12_000;

/** What people call each outcome. */
export const OUTCOME_WORDS: Readonly<Record<OutcomeKind, string>> = {
  exchange_order: 'exchange order',
  gift_card: 'gift card',
  refund: 'refund',
};

export interface StepOfJob {
  readonly job: Job;
  readonly details: Return;
  readonly step: Step;
}

/**
 * Asks the provider for one outcome, outside any transaction, and records its answer. A crash
 * between the two repeats the call with the same key, which the provider answers with the first
 * effect.
 *
 * @throws CommerceFailure; LeaseLost when another worker has the job by then.
 */
export async function performStep(
  o: StepOfJob & { readonly pool: pg.Pool; readonly commerce: CommerceProvider },
): Promise<void> {
  const { job, step } = o;
  const result = await ask(o.commerce, o);
  await inTransaction(o.pool, async (tx) => {
    // Touches the return before the job, as everything else does that locks both.
    await addTimeline(tx, job, [timelineOf(job, step, result)]);
    await renewAfterSuccess(tx, job);
    await recordOutcome(tx, job, { step, result });
  });
}

async function ask(commerce: CommerceProvider, o: StepOfJob): Promise<OutcomeResult> {
  const { job, details, step } = o;
  const signal = AbortSignal.timeout(CALL_LIMIT_MS);
  const request: CommerceRequest = {
    shopId: job.shopId,
    returnId: job.returnId,
    providerOrderId: details.order?.providerOrderId ?? 0n,
    idempotencyKey: step.key,
    amount: step.amount,
    currency: step.currency,
  };
  switch (step.kind) {
    case 'exchange_order': {
      const order = { ...request, items: itemsOf(details), details: job.details };
      return resultOfOrder(await commerce.createExchangeOrder(order, signal));
    }
    case 'gift_card': {
      const order = { ...request, details: job.details };
      return resultOfOrder(await commerce.issueGiftCard(order, signal));
    }
    case 'refund':
      return resultOfRefund(await commerce.createRefund(request, signal));
    default:
      return step.kind satisfies never;
  }
}

function itemsOf(details: Return): ExchangeItem[] {
  return details.exchanges.map((item) => ({
    productId: item.productId,
    variantId: item.variantId,
    sku: item.sku,
    title: item.title,
    price: item.price?.presentment ?? '0',
    discount: item.discount?.presentment ?? '0',
    tax: item.tax?.presentment ?? '0',
  }));
}

function timelineOf(job: Job, step: Step, result: OutcomeResult) {
  return {
    returnId: job.returnId,
    kind: `return.processing.${step.kind}`,
    text: `The ${OUTCOME_WORDS[step.kind]} was made at the commerce provider`,
    facts: {
      amount: result.amount,
      currency: result.currency,
      provider_id: result.providerId,
      ...(result.name === '' ? {} : { name: result.name }),
    },
  };
}
