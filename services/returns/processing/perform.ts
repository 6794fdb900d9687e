import type pg from 'pg';
import { type Return, UpsellPayment } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CommerceFailure,
  type Effect,
  type EffectKind,
  type EffectRequest,
  type ExchangeItem,
  type Funding,
  isDue,
  isFinal,
  isOrder,
  type MadeOrder,
  movesMoney,
} from '../../commerce/provider.ts';
import type { RequestWatch } from '../../commerce/request-watch.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import { committing, inTransaction, together } from '../../platform/postgres/postgres.ts';
import { formatAmount, sameDecimal } from '../../platform/values/money.ts';
import type { KnownOfOrder } from '../money/money-limit.ts';
import { findObstacleThere, knownBeforePayment } from '../returnable.ts';
import type { NewTimelineEntry } from '../store/timeline-store.ts';
import {
  type MadeStep,
  recordEffect,
  recordNoEffect,
  recordRequested,
  recordRequestedWithoutNews,
} from './effect-store.ts';
import { AmountMismatch, EFFECT_WORDS } from './failure.ts';
import { type Job, LEASE_MS, leaseLost, lockReturnOf } from './jobs.ts';
import { NotProcessable, ProviderChanged, type Step } from './plan.ts';
import type { Prepared } from './prepare.ts';

/** Timeout of a call, for adapters that have none of their own. Milliseconds. */
const CALL_LIMIT_MS = 12_000;
/** Maximum pause between two searches for an effect that may still be made. Milliseconds. */
const SEARCH_EVERY_MS = 10_000;

export interface StepOfJob {
  readonly job: Job;
  readonly prepared: Pick<Prepared, 'details' | 'lines' | 'stock' | 'commerce'> & {
    readonly orderToCancel?: MadeOrder;
  };
  readonly step: Step;
}

/**
 * Requests one effect of the provider, outside of any transaction. When the result of an earlier request is unknown, it
 * first asks the provider whether that request had its effect. So when a worker crashes between the effect and its
 * record, another worker finds the effect, even at a provider that has forgotten the key.
 *
 * @returns the effect, which the caller must record.
 * @throws CommerceFailure; AmountMismatch, after which the outcome of the request counts as unknown; NotProcessable and
 *   ProviderChanged, after which nothing was requested; LeaseLost when another worker has taken over the job.
 */
export async function makeEffect(o: PerformDeps): Promise<MadeStep> {
  const { step } = o;
  const effect =
    (await findEarlier(o, ({ isUnfinished }) => !isUnfinished)) ?? (await requestStep(o));
  const funding = fundingOf(o);
  if (!isAsPlanned(step, effect, funding)) throw new AmountMismatch(step, effect, funding);
  return madeStep(o, effect);
}

function madeStep(o: PerformDeps, effect: Effect): MadeStep {
  return { step: o.step, effect, entry: timelineOf(o, effect) };
}

export type PerformDeps = StepOfJob & {
  readonly pool: pg.Pool;
  readonly watch: RequestWatch;
};

/**
 * Finds the exchange order of a request with an unknown outcome, even when it has another amount. Undefined when it was
 * not made. Records which of the two is true.
 *
 * @throws CommerceFailure; LeaseLost.
 */
export async function findMadeOrder(o: PerformDeps): Promise<MadeOrder | undefined> {
  const found = await findEarlier(o);
  if (found) {
    await recordEffect(o.pool, o.job, madeStep(o, found));
    return { id: BigInt(found.id), name: found.name };
  }
  await inTransaction(o.pool, async (tx) => {
    await lockReturnOf(tx, o.job);
    await committing(tx, () => recordNoEffect(tx, o.job, o.step));
  });
  return undefined;
}

/**
 * Finds the effect of an earlier request. Undefined when the step may be requested.
 *
 * @param isEnough whether the effect that was found needs no other request.
 * @throws CommerceFailure
 */
async function findEarlier(
  o: PerformDeps,
  isEnough: (found: Effect) => boolean = () => true,
): Promise<Effect | undefined> {
  const { commerce } = o.prepared;
  const { askedAt, kind } = o.step;
  if (askedAt === undefined) return undefined;
  // Measured before the search: the search must be sent when the request can no longer arrive.
  const { shopId, returnId } = o.job;
  const seenMs = o.watch.seenMs({ shopId, returnId, kind, askedAt });
  const found = await commerce
    .find(effectRequest(o), AbortSignal.timeout(CALL_LIMIT_MS))
    .catch(asPassing);
  if (found && isEnough(found)) return found;
  if (seenMs >= commerce.settledAfterMs) return requireRepeatable(o);
  // The earlier request may still be on its way. At a provider that forgets keys, a second one could have a second
  // effect.
  const retryAfterMs = Math.min(commerce.settledAfterMs - seenMs, SEARCH_EVERY_MS);
  throw new CommerceFailure('passing', 'the outcome of the earlier request is not known yet', {
    retryAfterMs,
  });
}

/**
 * Requires that a repeated request cannot have a second effect. The oldest request decides, because any of the requests
 * may have been the one that made the effect. A negative age says that the clock of the database was set back, so that
 * the real age is unknown. @throws CommerceFailure `final`, when it could. Then a person must check.
 */
function requireRepeatable({ step, prepared }: PerformDeps): undefined {
  const limitMs = prepared.commerce.repeatableForMs?.[step.kind];
  const ageMs = step.oldestRequestMsAgo ?? Number.POSITIVE_INFINITY;
  if (limitMs === undefined || (ageMs >= 0 && ageMs < limitMs)) return undefined;
  const why =
    'the earlier request is too old to be repeated; say with `commerce settle` what it made';
  throw new CommerceFailure('final', why);
}

/** Converts a rejection of a search to a `passing` failure, because it says nothing about the earlier request. */
function asPassing(error: unknown): never {
  if (!isFinal(error)) throw error;
  throw new CommerceFailure('passing', 'the provider rejected the search', { cause: error });
}

async function requestStep(o: PerformDeps): Promise<Effect> {
  let startedAt = performance.now();
  let recordedAtMs = Date.now();
  if (!(await recordRequestedWithoutNews(o.pool, o.job, o.step))) {
    const known = movesMoney(o.step.kind)
      ? await knownBeforePayment(o.pool, o.job, async () => o.prepared.commerce)
      : undefined;
    // The look-up may take seconds, and the request is recorded after it.
    startedAt = performance.now();
    recordedAtMs = Date.now();
    await inTransaction(o.pool, (tx) => commitRequest(tx, o, known));
  }
  // This process may have been suspended. Then another worker has the job, and may have published its failure.
  if (performance.now() - startedAt >= LEASE_MS) throw leaseLost(o.job);
  const request = { ...effectRequest(o), recordedAtMs };
  return o.prepared.commerce.create(request, AbortSignal.timeout(CALL_LIMIT_MS));
}

/**
 * Records the request after the provider has reported an event about the order, or when the connection may have
 * changed. Does not record it when the connection has changed, or when the provider has refunded lines itself or
 * cancelled the order. To record such an event, a transaction needs the lock of the return. So the event is visible
 * here, or it happens after this decision.
 *
 * @param known what was known of the order, for a step that moves money.
 * @throws NotProcessable; ProviderChanged; LeaseLost; CommerceFailure `passing` and unsent, when the provider reported
 *   something after the look-up.
 */
async function commitRequest(
  tx: pg.PoolClient,
  { job, step, prepared }: PerformDeps,
  known: KnownOfOrder | undefined,
): Promise<void> {
  const [{ connection, news }, obstacle] = await together(tx, () =>
    allInOrder([
      lockReturnOf(tx, job),
      // Goods also go back to stock when the remaining money was refunded at the provider.
      known ? findObstacleThere(tx, prepared.details, known) : Promise.resolve(undefined),
    ]),
  );
  if (connection !== step.connectionAtPlan) throw new ProviderChanged();
  if (obstacle) throw new NotProcessable(obstacle.message);
  if (known && news !== known.news) {
    const why = 'the provider has just reported something about the order';
    throw new CommerceFailure('passing', why, { isUnsent: true });
  }
  await committing(tx, () => recordRequested(tx, job, step));
}

function isAsPlanned(step: Step, result: Effect, funding: Funding | undefined): boolean {
  if (!movesMoney(step.kind)) return true;
  // A provider that does not know what is due has made an order that nobody pays in full.
  const asked = step.kind === 'exchange_order' && isDue(funding) ? funding.due : undefined;
  if (asked !== undefined && !sameDecimal(result.due ?? '', asked)) return false;
  return result.currency === step.currency && sameDecimal(result.amount, step.amount);
}

/** How the exchange order of a return is paid; undefined for effects that have no such order. */
function fundingOf({ step, prepared }: StepOfJob): Funding | undefined {
  if (step.kind !== 'exchange_order' && step.kind !== 'order_cancel') return undefined;
  const { presentmentTotals: totals, presentmentCurrency, ...details } = prepared.details;
  const isPrepaid = details.upsellPayment === UpsellPayment.PREPAID;
  const nothing = formatAmount(0n, presentmentCurrency);
  return {
    paidByReturn: totals?.exchangeCreditTotal ?? nothing,
    due: isPrepaid ? nothing : (totals?.upsell ?? nothing),
    paymentReference: details.upsellPaymentReference,
  };
}

function effectRequest(o: StepOfJob): EffectRequest {
  const { job, step, prepared } = o;
  const { details, lines, stock, orderToCancel } = prepared;
  return {
    kind: step.kind,
    shopId: job.shopId,
    returnId: job.returnId,
    providerOrderId: details.order?.providerOrderId ?? 0n,
    orderName: details.order?.name ?? '',
    key: step.key,
    amount: step.amount,
    currency: step.currency,
    items: step.kind === 'exchange_order' ? itemsOf(details) : [],
    lines: step.kind === 'refund' ? lines : [],
    stock: step.kind === 'restock' ? stock : [],
    funding: fundingOf(o),
    orderToCancel: step.kind === 'order_cancel' ? orderToCancel : undefined,
    details: isOrder(step.kind) ? job.details : {},
  };
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

function timelineOf(o: PerformDeps, result: Effect): NewTimelineEntry {
  const { job, step } = o;
  const funding = step.kind === 'exchange_order' ? fundingOf(o) : undefined;
  return {
    returnId: job.returnId,
    kind: `return.processing.${step.kind}`,
    text: `${textOf(step.kind)} at the commerce provider`,
    facts: {
      ...(movesMoney(step.kind) && { amount: result.amount, currency: result.currency }),
      ...(isDue(funding) && { paid_by_return: funding.paidByReturn, due: funding.due }),
      ...(funding?.paymentReference && { upsell_payment: funding.paymentReference }),
      provider_id: result.id,
      ...(result.name === '' ? {} : { name: result.name }),
    },
  };
}

function textOf(kind: EffectKind): string {
  if (kind === 'restock') return 'The goods were restocked';
  if (kind === 'order_cancel') return 'The exchange order was cancelled';
  return `The ${EFFECT_WORDS[kind]} was made`;
}
