import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { CommerceProvider, CommerceRequest, ExchangeItem } from '../commerce/provider.ts';
import { type Job, LEASE_MS, leaseLost } from './jobs.ts';
import {
  type OutcomeResult,
  recordOutcome,
  recordRequested,
  resultOfOrder,
  resultOfRefund,
} from './outcomes.ts';
import type { OutcomeKind, Step } from './plan.ts';

/** The timeout of a call, for adapters that have none. Milliseconds. */
const CALL_LIMIT_MS = 12_000;

/** The name of each outcome for people. */
const OUTCOME_WORDS: Readonly<Record<OutcomeKind, string>> = {
  exchange_order: 'exchange order',
  gift_card: 'gift card',
  refund: 'refund',
};

export interface StepOfJob {
  readonly job: Job;
  readonly details: Return;
  readonly step: Step;
}

/** The provider fulfilled a step with a different amount than requested. A user must check it. */
export class AmountMismatch extends Error {
  override readonly name = 'AmountMismatch';

  constructor(step: Step, result: OutcomeResult) {
    const made = `${result.amount} ${result.currency}`;
    const requested = `${step.amount} ${step.currency}`;
    super(
      `the ${OUTCOME_WORDS[step.kind]} ${result.providerId} has ${made}, requested were ${requested}`,
    );
  }
}

/**
 * Requests one outcome of the provider, outside of any transaction, and records the result. After a crash between the
 * two, another worker repeats the request with the same key, and the provider returns the first result.
 *
 * @throws CommerceFailure; AmountMismatch, after which the outcome of the request counts as unknown; LeaseLost when
 *   another worker has taken over the job.
 */
export async function performStep(
  o: StepOfJob & { readonly pool: pg.Pool; readonly commerce: CommerceProvider },
): Promise<void> {
  const { job, step } = o;
  const startedAt = performance.now();
  await recordRequested(o.pool, job, step);
  // The process may have been suspended. Then another worker has the job, and may have published its failure.
  if (performance.now() - startedAt >= LEASE_MS) throw leaseLost(job);
  const result = await callProvider(o.commerce, o);
  if (!isAsPlanned(step, result)) throw new AmountMismatch(step, result);
  await recordOutcome(o.pool, job, { step, result, entry: timelineOf(job, step, result) });
}

function isAsPlanned(step: Step, result: OutcomeResult): boolean {
  if (result.currency !== step.currency) return false;
  return /^\d+(\.\d+)?$/.test(result.amount) && sameDecimal(result.amount, step.amount);
}

/** Whether two decimal strings are the same number. Leading and trailing zeros do not matter. */
function sameDecimal(one: string, other: string): boolean {
  const plain = (text: string) => {
    const [units = '', fraction = ''] = text.split('.');
    return `${units.replace(/^0+(?=\d)/, '')}.${fraction.replace(/0+$/, '')}`;
  };
  return plain(one) === plain(other);
}

async function callProvider(commerce: CommerceProvider, o: StepOfJob): Promise<OutcomeResult> {
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
