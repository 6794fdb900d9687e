import type { Queryable } from '../../platform/postgres.ts';
import type { MadeRefund, PlacedOrder } from '../commerce/provider.ts';
import {
  insertTimelineWhere,
  type NewTimelineEntry,
  timelineRows,
} from '../store/timeline-store.ts';
import { type Job, LEASE_S, leaseLost } from './jobs.ts';
import type { OutcomeKind, Step } from './plan.ts';

type OfReturn = Pick<Job, 'shopId' | 'returnId'>;

const INTEND = `
insert into processing_outcomes as outcome (shop_id, return_id, kind, key, amount, currency)
select $1, $2, step.kind, step.key, step.amount, step.currency
from unnest($3::text[], $4::text[], $5::numeric[], $6::text[]) as step (kind, key, amount, currency)
on conflict (shop_id, return_id, kind, key) do update
set amount = case when outcome.done_at is null then excluded.amount else outcome.amount end
returning kind, done_at is not null as done`;

/**
 * Records the steps that processing is about to ask for. An outcome of an earlier run stays as it is.
 *
 * @returns the steps that are not done.
 */
export async function intendSteps(
  tx: Queryable,
  of: OfReturn,
  steps: readonly Step[],
): Promise<Step[]> {
  if (steps.length === 0) return [];
  const { rows } = await tx.query<{ kind: OutcomeKind; done: boolean }>({
    name: 'processing-intend',
    text: INTEND,
    values: [
      of.shopId,
      of.returnId,
      steps.map((step) => step.kind),
      steps.map((step) => step.key),
      steps.map((step) => step.amount),
      steps.map((step) => step.currency),
    ],
  });
  const done = new Set(rows.filter((row) => row.done).map((row) => row.kind));
  return steps.filter((step) => !done.has(step.kind));
}

/**
 * Whether any run of processing fulfilled an outcome of the return (or the one of this kind), or may have, so that
 * money or goods may have moved. Steps that the provider was not asked for, or refused, do not count. A caller that
 * decides by the result holds the return's row lock.
 */
export async function mayHaveFulfilled(
  tx: Queryable,
  of: OfReturn,
  kind?: OutcomeKind,
): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'processing-may-have-fulfilled',
    text: `select from processing_outcomes
           where shop_id = $1 and return_id = $2 and ($3::text is null or kind = $3)
             and coalesce(done_at, asked_at) is not null limit 1`,
    values: [of.shopId, of.returnId, kind ?? null],
  });
  return rowCount !== 0;
}

const NOTE_ASKED = `
with held as (
  update processing_jobs set due_at = now() + make_interval(secs => $6)
  where shop_id = $1 and id = $5 and lease_token = $7 and state = 'running'
  returning shop_id, return_id
)
update processing_outcomes outcome set asked_at = now()
from held
where outcome.shop_id = held.shop_id and outcome.return_id = held.return_id
  and outcome.return_id = $2 and outcome.kind = $3 and outcome.key = $4 and outcome.done_at is null`;

/**
 * Records that the provider is about to be asked, and renews the lease. Until the provider answers, the step may have
 * taken effect. A worker whose job was taken over gets LeaseLost, so it does not ask.
 *
 * @throws LeaseLost
 */
export async function noteAsked(db: Queryable, job: Job, step: Step): Promise<void> {
  const { rowCount } = await db.query({
    name: 'processing-ask',
    text: NOTE_ASKED,
    values: [job.shopId, job.returnId, step.kind, step.key, job.id, LEASE_S, job.token],
  });
  if (rowCount !== 1) throw leaseLost(job);
}

/**
 * Records that the provider refused a step, so that it had no effect. The caller's transaction also checks the job's
 * lease.
 */
export async function noteRefused(tx: Queryable, of: OfReturn, step: Step): Promise<void> {
  await tx.query({
    name: 'processing-refused',
    text: `update processing_outcomes set asked_at = null
           where shop_id = $1 and return_id = $2 and kind = $3 and key = $4 and done_at is null`,
    values: [of.shopId, of.returnId, step.kind, step.key],
  });
}

/** The answer of the provider, as it is stored. */
export interface OutcomeResult {
  readonly providerId: string;
  /** Empty for refunds. */
  readonly name: string;
  /** Empty for orders. */
  readonly gateway: string;
  readonly provider: string;
  readonly amount: string;
  readonly currency: string;
  /** When the provider made it; undefined when the provider does not say. */
  readonly createdAt: Date | undefined;
}

export function resultOfOrder(order: PlacedOrder): OutcomeResult {
  const { id, name, amount, currency } = order;
  const providerId = String(id);
  return { providerId, name, amount, currency, gateway: '', provider: '', createdAt: undefined };
}

export function resultOfRefund(refund: MadeRefund): OutcomeResult {
  const { id: providerId, gateway, provider, amount, currency, createdAt } = refund;
  return { providerId, name: '', gateway, provider, amount, currency, createdAt };
}

const RECORD = `
with held as (
  update processing_jobs
  set due_at = now() + make_interval(secs => $3), failures = 0, failing_since = null, takeovers = 0
  where shop_id = $1 and id = $4 and lease_token = $5 and state = 'running'
  returning shop_id, return_id
), done as (
  update processing_outcomes outcome
  set done_at = now(), provider_id = $8, name = $9, gateway = $10, provider = $11,
      provider_created_at = coalesce($12, now())
  from held
  where outcome.shop_id = held.shop_id and outcome.return_id = held.return_id
    and outcome.kind = $6 and outcome.key = $7 and outcome.done_at is null
  returning outcome.return_id
)
${insertTimelineWhere('e.return_id in (select return_id from done)')}`;

/**
 * Records that a step took effect, adds a timeline entry, renews the lease and clears the passing failures, because the
 * provider has answered. All in one statement, which checks the lease.
 *
 * @throws LeaseLost
 */
export async function recordOutcome(
  db: Queryable,
  job: Job,
  o: { readonly step: Step; readonly result: OutcomeResult; readonly entry: NewTimelineEntry },
): Promise<void> {
  const { step, result, entry } = o;
  const { rowCount } = await db.query({
    name: 'processing-outcome',
    text: RECORD,
    values: [
      job.shopId,
      timelineRows(job.actor, [entry]),
      LEASE_S,
      job.id,
      job.token,
      step.kind,
      step.key,
      result.providerId,
      result.name,
      result.gateway,
      result.provider,
      result.createdAt ?? null,
    ],
  });
  if (rowCount !== 1) throw leaseLost(job);
}

/** CTEs that add the done outcomes of return $2 of shop $1 to its details. */
const SHOWN = `
shown as (
  update processing_outcomes set shown_at = now()
  where shop_id = $1 and return_id = $2 and done_at is not null and shown_at is null
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
 * Adds the outcomes that were done since the last run to the return's details. Called at the end of a run, so that
 * each run is one change of the details, whether it succeeded or not.
 */
export async function showOutcomes(tx: Queryable, of: OfReturn): Promise<void> {
  const text = `with ${SHOWN} select from shown`;
  await tx.query({ name: 'processing-show', text, values: [of.shopId, of.returnId] });
}

// An edit may remove a step from the plan after the provider was asked for it. No run would ask again, and a closed
// return would hide it, so the return stays open.
const FINISH = `
with ${SHOWN}, finished as (
  update processing_jobs set state = 'done', finished_at = now()
  where shop_id = $1 and id = $3 and lease_token = $4 and state = 'running'
  returning id
)
select exists (select from finished) as finished,
       not exists (
         select from processing_outcomes o
         where o.shop_id = $1 and o.return_id = $2
           and o.asked_at is not null and o.done_at is null) as answered`;

/**
 * {@link showOutcomes}, and ends the run as done. The caller closes the return, or rolls back when an answer of the
 * provider is missing.
 *
 * @returns whether the provider has answered every request.
 * @throws LeaseLost.
 */
export async function showAndFinish(tx: Queryable, job: Job): Promise<boolean> {
  const { rows } = await tx.query<{ answered: boolean; finished: boolean }>({
    name: 'processing-done',
    text: FINISH,
    values: [job.shopId, job.returnId, job.id, job.token],
  });
  if (!rows[0]?.answered) return false;
  if (!rows[0].finished) throw leaseLost(job);
  return true;
}
