import type pg from 'pg';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type CommerceProvider, LedgerUnavailable } from '../../commerce/provider.ts';
import type { Providers } from '../../commerce/providers.ts';
import type { RequestWatch } from '../../commerce/request-watch.ts';
import { LeaseLost } from '../../platform/leases/leases.ts';
import { isOutage } from '../../platform/postgres/outage.ts';
import { inTransaction } from '../../platform/postgres/postgres.ts';
import { type Backoff, createBackoff, equalJitter, retry } from '../../platform/process/backoff.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import { withTraceparent } from '../../platform/telemetry/telemetry.ts';
import { isUnavailable } from '../../platform/values/errors.ts';
import type { Destinations } from '../destinations.ts';
import { loadSettings } from '../settings.ts';
import type { ReturnStore } from '../store/return-store.ts';
import { type MadeStep, recordEffect, recordNoEffect, recordProblem } from './effect-store.ts';
import {
  hadNoEffect,
  isPermanent,
  messageOf,
  type RequestedStep,
  reasonOf,
  requestedPauseMs,
} from './failure.ts';
import { closeAsCancelled, closeReturn, failJob, prepareCancellation } from './finish.ts';
import { type Job, postponeJob, releaseJob } from './jobs.ts';
import { findMadeOrder, makeEffect } from './perform.ts';
import { NotProcessable, ProviderChanged, type Step } from './plan.ts';
import { type Prepared, prepare } from './prepare.ts';
import { atLocation, locationOf } from './restock.ts';
import type { RunEnd } from './worker.ts';

export interface RunDeps {
  readonly pool: pg.Pool;
  readonly store: ReturnStore;
  readonly destinations: Destinations;
  readonly logger: Logger;
  /** The pauses after transient failures of the provider. */
  readonly retryBackoff: Backoff;
  readonly providers: Providers;
  readonly watch: RequestWatch;
}

/**
 * Runs one job. At its end it publishes `return.closed`, for a cancellation `return.updated`, or
 * `return.processing.failed`. Or it queues the job for another run: after a transient failure, when the shop got
 * another commerce provider, and when `signal` says that the worker stops. When `signal` says that the lease is lost,
 * the run just ends.
 *
 * @returns whether the job ended, or is queued for another run. A job that another worker took over has ended here.
 *
 * The process may be killed at any await. Then another worker repeats every request that has no recorded result, with
 * the same keys. The end of a run is one transaction. When the database or an internal service is unavailable, the job
 * is queued again, and the run does not count as a failure. Rejects when the worker stops during such an outage. Then
 * the lease expires.
 */
export function runJob(deps: RunDeps, job: Job, signal: AbortSignal): Promise<RunEnd> {
  return withTraceparent(
    job.traceparent,
    async () => {
      const progress: Progress = { failures: job.failures, requested: undefined };
      try {
        return await fulfil(deps, job, { signal, progress });
      } catch (error) {
        if (error instanceof LeaseLost) return logTakenOver(deps.logger, job);
        const { failures, requested } = progress;
        if (isInternalOutage(error)) return requeue(deps, job, { error, signal });
        if (error instanceof ProviderChanged) return requeue(deps, job, { error, signal });
        try {
          return await afterFailure(deps, { ...job, failures }, { error, requested });
        } catch (failure) {
          // Requests without a recorded result are repeated by the next run, with the same keys.
          if (!isInternalOutage(failure)) throw failure;
          return requeue(deps, job, { error: failure, signal });
        }
      }
    },
    job.tracestate,
  );
}

/** What a run has done so far. When the run fails, its failure is recorded with these values. */
interface Progress {
  failures: number;
  /** The step that was requested of the provider, until its result is recorded. */
  requested: RequestedStep | undefined;
}

async function fulfil(
  deps: RunDeps,
  job: Job,
  o: { readonly signal: AbortSignal; readonly progress: Progress },
): Promise<RunEnd> {
  const { pool, store, watch } = deps;
  const { progress } = o;
  if (job.failureReason !== undefined) throw new NotProcessable(job.failureReason);
  if (job.isCancellation) return cancelWithOrder(deps, job, progress);
  const prepared = await prepare(deps, job);
  const { restockMode, giftCardsAreExternal, units, steps, commerce } = prepared;
  // Read the location before any payment, because the return cannot be closed without it.
  const location = await stockLocation(deps, job, prepared);
  const located = { ...prepared, stock: atLocation(prepared.stock, location) };
  let made: MadeStep | undefined;
  const record = async (done: MadeStep): Promise<void> => {
    await recordEffect(pool, job, done);
    succeeded(progress);
  };
  for (const step of steps) {
    if (made) await record(made);
    made = undefined;
    if (o.signal.aborted) {
      await releaseJob(pool, job);
      return 'queued';
    }
    begun(progress, { step, commerce });
    made = await makeEffect({ pool, watch, job, prepared: located, step });
  }
  const closing = { job, restockMode, giftCardsAreExternal, units, location, made };
  try {
    // Records the last effect, too: one commit less.
    await closeReturn(store, closing);
  } catch (error) {
    // The return stays open, and its details must show what was made.
    if (made && !(error instanceof LeaseLost)) await record(made);
    throw error;
  }
  return 'ended';
}

interface StepAtProvider {
  readonly step: Step;
  readonly commerce: CommerceProvider;
}

/** Notes which step is requested, for the case that the request fails. */
function begun(progress: Progress, { step, commerce }: StepAtProvider): void {
  progress.requested = { ...step, isSearchReliable: commerce.settledAfterMs === 0 };
}

/** Notes that the provider has made the requested step, and that this is recorded. */
function succeeded(progress: Progress): void {
  progress.requested = undefined;
  progress.failures = 0;
}

/** Notes which step is requested while `work` runs. */
async function requesting<T>(
  progress: Progress,
  of: StepAtProvider,
  work: () => Promise<T>,
): Promise<T> {
  begun(progress, of);
  const result = await work();
  succeeded(progress);
  return result;
}

/**
 * Cancels the exchange order of a return at the commerce provider, and then the return. When the request for the order
 * has an unknown outcome, it first searches for the order. When the order was not made, only the return is cancelled.
 *
 * @throws NotProcessable; CommerceFailure; LeaseLost.
 */
async function cancelWithOrder(deps: RunDeps, job: Job, progress: Progress): Promise<'ended'> {
  const { pool, watch } = deps;
  const prepared = await prepareCancellation(deps, job);
  if (prepared) {
    const { commerce, steps } = prepared;
    const { exchange, cancellation } = steps;
    const order = await requesting(
      progress,
      { step: exchange, commerce },
      async () =>
        prepared.order ?? (await findMadeOrder({ pool, watch, job, prepared, step: exchange })),
    );
    if (order && !prepared.isOrderCancelled) {
      const cancelling = { ...prepared, orderToCancel: order };
      await requesting(progress, { step: cancellation, commerce }, async () =>
        recordEffect(
          pool,
          job,
          await makeEffect({ pool, watch, job, prepared: cancelling, step: cancellation }),
        ),
      );
    }
  }
  await closeAsCancelled(deps.store, job);
  return 'ended';
}

async function stockLocation(
  deps: RunDeps,
  job: Job,
  { details, restockMode, steps }: Prepared,
): Promise<bigint> {
  const isByEvent = restockMode === RestockMode.WEBHOOK;
  const isNeeded = isByEvent || steps.some(({ kind }) => kind === 'restock');
  return isNeeded ? locationOf(deps.destinations, job, details) : 0n;
}

/** Pause after an internal outage, before its jitter. Milliseconds. */
const OUTAGE_PAUSE_MS = 2_000;

/** Queues the job again after an error that does not count as a failure. */
async function requeue(
  { pool, logger }: RunDeps,
  job: Job,
  { error, signal }: { readonly error: unknown; readonly signal: AbortSignal },
): Promise<RunEnd> {
  const pauseMs = equalJitter(OUTAGE_PAUSE_MS);
  const fields = { err: error, shop: String(job.shopId), return: String(job.returnId) };
  logger.warn(
    { ...fields, pauseMs },
    error instanceof ProviderChanged
      ? 'processing job requeued: the shop has another commerce provider'
      : 'processing job requeued: database or internal service unavailable',
  );
  try {
    await throughOutage(() => releaseJob(pool, job, pauseMs), signal);
  } catch (failure) {
    if (!(failure instanceof LeaseLost)) throw failure;
    return logTakenOver(logger, job);
  }
  return 'queued';
}

async function afterFailure(
  deps: RunDeps,
  job: Job,
  { error, requested }: { readonly error: unknown; readonly requested: RequestedStep | undefined },
): Promise<RunEnd> {
  const { pool, logger } = deps;
  const pauseMs = requestedPauseMs(error) ?? deps.retryBackoff(job.failures + 1);
  const fields = { err: error, shop: String(job.shopId), return: String(job.returnId) };
  const withoutEffect = hadNoEffect(error, requested) ? requested : undefined;
  if (requested && error instanceof Error) {
    await recordProblem(pool, job, { step: requested, problem: error.message });
  }
  if (!isPermanent(error)) {
    const { processingRetryMinutes: limitMinutes } = await loadSettings(pool, job.shopId);
    if (await postpone(pool, job, { pauseMs, limitMinutes, withoutEffect })) {
      logger.warn(
        { ...fields, failures: job.failures + 1, pauseMs },
        'processing attempt failed, retrying',
      );
      return 'queued';
    }
  }
  try {
    const unknown = withoutEffect ? undefined : requested;
    const message = messageOf(error, job, unknown);
    await failJob(deps.store, job, { message, withoutEffect, reason: reasonOf(error) });
    logger.warn(fields, 'processing failed');
  } catch (failure) {
    if (!(failure instanceof LeaseLost)) throw failure;
    return logTakenOver(logger, job);
  }
  return 'ended';
}

/**
 * Queues the job again, and records which step was requested without an effect. Returns false when {@link postponeJob}
 * does.
 */
function postpone(
  pool: pg.Pool,
  job: Job,
  o: { pauseMs: number; limitMinutes: number; withoutEffect: Step | undefined },
): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const isQueued = await postponeJob(tx, job, o);
    if (isQueued && o.withoutEffect) await recordNoEffect(tx, job, o.withoutEffect);
    return isQueued;
  });
}

function logTakenOver(logger: Logger, job: Job): 'ended' {
  logger.info({ job: String(job.id) }, 'job taken over by another worker');
  return 'ended';
}

/** Pauses between attempts to reach the database. */
const RECONNECT_BACKOFF = createBackoff({ firstMs: 250, longestMs: 500, jitter: equalJitter });

/**
 * Whether a run ended because the database or an internal service is unavailable. The commerce provider did not fail,
 * so the run does not count as a failure.
 */
function isInternalOutage(error: unknown): boolean {
  return error instanceof LedgerUnavailable || isOutage(error) || isUnavailable(error);
}

/**
 * Repeats `work` until the database is available. The work writes to the row of a leased job. Without the repeats the
 * lease would expire, which counts as a takeover of the job. Stops when the worker stops.
 *
 * @throws LeaseLost; an error of `work` that is not an outage; the last outage when `signal` is aborted.
 */
function throughOutage(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  return retry(work, { backoff: RECONNECT_BACKOFF, isTransient: isOutage, signal });
}
