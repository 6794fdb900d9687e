import type { Effect, EffectKind, MadeOrder } from '../../commerce/provider.ts';
import { isUnknownOutcome } from '../../commerce/unknown-outcomes.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { named, raw, rowsOf, type Sql, sql } from '../../platform/postgres/sql.ts';
import type { Fulfilment, ReturnRef } from '../return.ts';
import { insertTimeline, type NewTimelineEntry } from '../store/timeline-store.ts';
import { connectedTo, type Job, leaseLost, PROCESSING } from './jobs.ts';
import type { AtPlan, PlannedStep, Step } from './plan.ts';

const stepRows = rowsOf<PlannedStep>({
  kind: ['text', ({ kind }) => kind],
  key: ['text', ({ key }) => key],
  amount: ['numeric', ({ amount }) => amount],
  currency: ['text', ({ currency }) => currency],
});

interface RequestTimes {
  readonly askedAt: string | null;
  readonly oldestRequestMsAgo: number | null;
}

/** SQL: the columns of {@link RequestTimes}. */
const REQUEST_TIMES = `asked_at::text as "askedAt",
  extract(epoch from now() - first_asked_at)::float8 * 1000 as "oldestRequestMsAgo"`;

function requestTimesOf(row: RequestTimes | undefined) {
  return {
    askedAt: row?.askedAt ?? undefined,
    oldestRequestMsAgo: row?.oldestRequestMsAgo ?? undefined,
  };
}

/**
 * Records the steps that a run will request. Does not change an effect that an earlier run recorded.
 *
 * @returns the steps that are not done. A step that an earlier run recorded has the key of that run.
 */
export async function intendSteps(
  tx: Queryable,
  of: ReturnRef,
  o: { readonly planned: readonly PlannedStep[]; readonly atPlan: AtPlan },
): Promise<Step[]> {
  const { planned: steps, atPlan } = o;
  if (steps.length === 0) return [];
  const { rows } = await tx.query<RequestTimes & { kind: EffectKind; key: string; done: boolean }>(
    named(
      'processing-intend',
      sql`
insert into processing_outcomes as outcome (shop_id, return_id, kind, key, amount, currency)
select ${of.shopId}::bigint, ${of.returnId}::bigint, step.* from ${stepRows('step', steps)}
on conflict (shop_id, return_id, kind) do update
set amount = case when outcome.done_at is null then excluded.amount else outcome.amount end
returning kind, key, done_at is not null as done, ${raw(REQUEST_TIMES)}`,
    ),
  );
  const rowOf = new Map(rows.map((row) => [row.kind, row]));
  return steps.flatMap((step) => {
    const row = rowOf.get(step.kind);
    return row && !row.done ? [{ ...step, key: row.key, ...atPlan, ...requestTimesOf(row) }] : [];
  });
}

/**
 * Records that a run will cancel the exchange order of a return, unless an earlier run recorded this. Also reads when
 * the requests for the order and for its cancellation were sent.
 *
 * @returns the steps by kind.
 */
export async function intendCancellation(
  tx: Queryable,
  of: ReturnRef,
  o: {
    readonly exchange: PlannedStep;
    readonly cancellation: PlannedStep;
    readonly atPlan: AtPlan;
  },
): Promise<{ readonly exchange: Step; readonly cancellation: Step }> {
  const { exchange, cancellation, atPlan } = o;
  const { kind, key, amount, currency } = cancellation;
  const { rows } = await tx.query<RequestTimes & { kind: string; key: string }>({
    name: 'cancellation-intend',
    text: `with intended as (
             insert into processing_outcomes (shop_id, return_id, kind, key, amount, currency)
             values ($1, $2, $3, $4, $5, $6)
             on conflict (shop_id, return_id, kind) do nothing
           )
           select kind, key, ${REQUEST_TIMES}
             from processing_outcomes where shop_id = $1 and return_id = $2`,
    values: [of.shopId, of.returnId, kind, key, amount, currency],
  });
  const stepOf = (step: PlannedStep): Step => {
    const row = rows.find((one) => one.kind === step.kind);
    return { ...step, key: row?.key ?? step.key, ...atPlan, ...requestTimesOf(row) };
  };
  return { exchange: stepOf(exchange), cancellation: stepOf(cancellation) };
}

/**
 * Records that the step is about to be requested (columns `asked_at` and `first_asked_at`), and renews the lease. Until
 * the provider responds, the step may have had its effect.
 *
 * @throws LeaseLost when another worker has taken over the job, or the shop's connection has changed since the step was
 *   planned. Then the caller must not send the request.
 */
export async function recordRequested(db: Queryable, job: Job, step: Step): Promise<void> {
  const { rowCount } = await db.query(named('processing-request', requested(job, step)));
  if (rowCount !== 1) throw leaseLost(job);
}

/**
 * Records the request, as {@link recordRequested} does, if the provider has reported no event about the order since the
 * step was planned.
 *
 * @returns false, and records nothing, in each of four cases: the provider has reported such an event; it had reported
 *   before the plan what stops payments; another worker has taken over the job; the shop's connection has changed.
 */
export async function recordRequestedWithoutNews(
  db: Queryable,
  job: Job,
  step: Step,
): Promise<boolean> {
  if (step.newsAtPlan === undefined) return false;
  const { rowCount } = await db.query(
    named(
      'processing-request-without-news',
      sql`${requested(job, step)}
  and exists (
    select from returns
     where shop_id = ${job.shopId} and id = ${job.returnId} and provider_news = ${step.newsAtPlan})`,
    ),
  );
  return rowCount === 1;
}

// Only the provider that gets this request can find its effect later. A change of the connection locks the connection's
// row, and is rejected when it then finds a request without a known outcome. `for share` waits for this lock. So either
// the change finds this request, or this request finds the change. A shop without a connection has no row to lock. Its
// provider is the ledger of this service, which moves no money.
const requested = (job: Job, step: Step): Sql => sql`
with owned as (
  update processing_jobs set ${PROCESSING.renewal} where ${PROCESSING.isOwned(job)}
  returning shop_id, return_id
)
update processing_outcomes outcome
set asked_at = now(), first_asked_at = coalesce(first_asked_at, now())
from owned
where outcome.shop_id = owned.shop_id and outcome.return_id = owned.return_id
  and outcome.kind = ${step.kind} and outcome.key = ${step.key} and outcome.done_at is null
  and (${connectedTo(job.shopId)} for share) is not distinct from ${step.connectionAtPlan}::text`;

/**
 * Records that the request of a step had no effect, because it was rejected or not sent. The transaction of the caller
 * must also check the lease of the job.
 */
export async function recordNoEffect(
  tx: Queryable,
  ofReturn: ReturnRef,
  step: Step,
): Promise<void> {
  await tx.query({
    name: 'processing-no-effect',
    text: `update processing_outcomes set asked_at = null, first_asked_at = null
           where shop_id = $1 and return_id = $2 and kind = $3 and key = $4 and done_at is null`,
    values: [ofReturn.shopId, ofReturn.returnId, step.kind, step.key],
  });
}

/** Maximum length of a problem, as in the table. Unicode characters. */
const PROBLEM_MAX = 500;

/** Makes the text of a provider storable, and short enough for the table. */
export function storable(problem: string): string {
  return [...problem.replaceAll('\0', '').toWellFormed()].slice(0, PROBLEM_MAX).join('');
}

/** Records for people why a request of a step did not succeed. Nothing depends on this text, so it needs no lease. */
export async function recordProblem(
  db: Queryable,
  of: ReturnRef,
  { step, problem }: { readonly step: Step; readonly problem: string },
): Promise<void> {
  const text = storable(problem);
  await db.query({
    name: 'processing-problem',
    text: `update processing_outcomes set problem = $5
            where shop_id = $1 and return_id = $2 and kind = $3 and key = $4 and done_at is null`,
    values: [of.shopId, of.returnId, step.kind, step.key, text],
  });
}

/** A step whose effect the provider has made. */
export interface MadeStep {
  readonly step: Step;
  readonly effect: Effect;
  readonly entry: NewTimelineEntry;
}

/**
 * Records that a step had its effect. Adds a timeline entry and renews the lease. Resets the count of failures, because
 * the provider has responded. One statement does all of this and checks the lease.
 *
 * @throws LeaseLost
 */
export async function recordEffect(
  db: Queryable,
  job: Job,
  { step, effect, entry }: MadeStep,
): Promise<void> {
  const isDone = sql`e.return_id in (select return_id from done)`;
  const { rowCount } = await db.query(
    named(
      'processing-outcome',
      sql`
with owned as (
  update processing_jobs
  set ${PROCESSING.renewal}, failures = 0, failing_since = null, takeovers = 0
  where ${PROCESSING.isOwned(job)}
  returning shop_id, return_id
), done as (
  update processing_outcomes outcome
  set done_at = now(), provider_id = ${effect.id}, name = ${effect.name},
      gateway = ${effect.gateway}, provider = ${effect.provider},
      provider_created_at = coalesce(${effect.createdAt}, now()), problem = ''
  from owned
  where outcome.shop_id = owned.shop_id and outcome.return_id = owned.return_id
    and outcome.kind = ${step.kind} and outcome.key = ${step.key} and outcome.done_at is null
  returning outcome.return_id
)
${insertTimeline(job, [entry], isDone)}`,
    ),
  );
  if (rowCount !== 1) throw leaseLost(job);
}

/**
 * Adds the effects that were made since the last run to the details of the return, and ends the job as done. Then the
 * caller closes the return. When the outcome of a request is unknown, the caller rolls back instead.
 *
 * @returns whether the outcome of every request is known.
 * @throws LeaseLost
 */
export async function showAndFinish(tx: Queryable, job: Job): Promise<boolean> {
  // An edit may remove a step after it was requested of the provider. No later run requests this step, and a closed
  // return would hide it. So the return stays open.
  const { rows } = await tx.query<{ all_known: boolean; finished: boolean }>(
    named(
      'processing-done',
      sql`
with ${shownEffects(job)}, finished as (
  update processing_jobs set state = 'done', finished_at = now()
  where ${PROCESSING.isOwned(job)}
  returning id
)
select exists (select from finished) as finished,
       not exists (
         select from processing_outcomes o
         where o.shop_id = ${job.shopId} and o.return_id = ${job.returnId}
           and ${raw(isUnknownOutcome('o'))}) as all_known`,
    ),
  );
  if (!rows[0]?.all_known) return false;
  if (!rows[0].finished) throw leaseLost(job);
  return true;
}

// What runs of processing have made for a return. Rules of other use cases, such as cancelling, depend on this.

/**
 * Returns whether runs of processing have made effects for a return; with `kind`, only effects of this kind. When the
 * result is not `none`, money or goods may have moved. Steps that no run requested, or that the provider rejected, do
 * not count. A caller that decides by the result must hold the row lock of the return.
 */
export async function fulfilmentOf(
  tx: Queryable,
  ofReturn: ReturnRef,
  kind?: EffectKind,
): Promise<Fulfilment> {
  const result = await tx.query<{ isUnknown: boolean | null }>({
    name: 'processing-fulfilment',
    text: `select bool_or(done_at is null) as "isUnknown" from processing_outcomes
           where shop_id = $1 and return_id = $2 and ($3::text is null or kind = $3)
             and coalesce(done_at, asked_at) is not null`,
    values: [ofReturn.shopId, ofReturn.returnId, kind ?? null],
  });
  const isUnknown = onlyRow(result).isUnknown ?? undefined;
  if (isUnknown === undefined) return 'none';
  return isUnknown ? 'unknown' : 'made';
}

/** Whether a run has made an effect of this kind, or may have. See {@link fulfilmentOf}. */
export async function mayHaveFulfilled(
  tx: Queryable,
  of: ReturnRef,
  kind: EffectKind,
): Promise<boolean> {
  return (await fulfilmentOf(tx, of, kind)) !== 'none';
}

/** What runs requested of the commerce provider for a return that is to be cancelled. */
interface Requested {
  /** The exchange order, when it was made or may have been; undefined otherwise. */
  readonly exchange: RequestedExchange | undefined;
  /** Whether the exchange order was cancelled. */
  readonly isOrderCancelled: boolean;
  /**
   * What processing has made or may have made besides the exchange order, such as a refund. A cancellation cannot undo
   * it.
   */
  readonly others: Fulfilment;
}

interface RequestedExchange {
  readonly step: PlannedStep;
  /** The order; undefined while the outcome of its request is unknown. */
  readonly order: MadeOrder | undefined;
}

interface Row {
  readonly kind: PlannedStep['kind'];
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly isDone: boolean;
  readonly providerId: string | null;
  readonly name: string | null;
}

/** Reads {@link Requested}. A caller that decides by the result must hold the return's row lock. */
export async function requestedOf(tx: Queryable, ofReturn: ReturnRef): Promise<Requested> {
  const { rows } = await tx.query<Row>({
    name: 'cancellation-requested',
    text: `select kind, key, amount, currency, done_at is not null as "isDone",
                  provider_id as "providerId", name
             from processing_outcomes
            where shop_id = $1 and return_id = $2 and coalesce(done_at, asked_at) is not null`,
    values: [ofReturn.shopId, ofReturn.returnId],
  });
  const exchange = rows.find(({ kind }) => kind === 'exchange_order');
  return {
    exchange: exchange && exchangeOf(exchange),
    isOrderCancelled: rows.some(({ kind, isDone }) => kind === 'order_cancel' && isDone),
    others: fulfilmentIn(rows.filter((row) => !PART_OF_CANCELLATION.has(row.kind))),
  };
}

/** The kinds that a cancellation undoes, and the kind of the cancellation itself. */
const PART_OF_CANCELLATION: ReadonlySet<string> = new Set(['exchange_order', 'order_cancel']);

function fulfilmentIn(requested: readonly Row[]): Fulfilment {
  if (requested.length === 0) return 'none';
  return requested.every(({ isDone }) => isDone) ? 'made' : 'unknown';
}

function exchangeOf({ isDone, providerId, name, ...step }: Row): RequestedExchange {
  if (!isDone) return { step, order: undefined };
  if (providerId === null) throw new Error(`the order of ${step.key} has no id of the provider`);
  return { step, order: { id: BigInt(providerId), name: name ?? '' } };
}

/** SQL: CTEs that add the effects that were made for a return to its details. */
const shownEffects = ({ shopId, returnId }: ReturnRef): Sql => sql`
shown as (
  update processing_outcomes set shown_at = now()
  where shop_id = ${shopId} and return_id = ${returnId} and done_at is not null and shown_at is null
  returning *
), placed as (
  insert into provider_orders (shop_id, return_id, kind, provider_order_id, name, value, currency)
  select shop_id, return_id, case kind when 'gift_card' then 'gift_card' else 'exchange' end,
    provider_id::bigint, name,
    case kind when 'gift_card' then amount end, case kind when 'gift_card' then currency end
  from shown where kind in ('exchange_order', 'gift_card')
), refunded as (
  insert into refunds
    (shop_id, return_id, gateway, provider, provider_refund_id, value, currency, provider_created_at)
  select shop_id, return_id, gateway, provider, provider_id, amount, currency, provider_created_at
  from shown where kind = 'refund'
)`;

/**
 * Adds the effects that were made since the last run to the details of the return. Each run calls this function once,
 * at its end, also when the run fails. So a run changes the details only once.
 */
export async function showEffects(tx: Queryable, ofReturn: ReturnRef): Promise<void> {
  await tx.query(named('processing-show', sql`with ${shownEffects(ofReturn)} select from shown`));
}
