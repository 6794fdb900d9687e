import type pg from 'pg';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type Backoff, createBackoff, equalJitter, retry } from '../../platform/backoff.ts';
import { isUnavailable } from '../../platform/errors.ts';
import { LeaseLost } from '../../platform/lease-lost.ts';
import type { Logger } from '../../platform/log.ts';
import { isOutage } from '../../platform/outage.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { withTraceparent } from '../../platform/telemetry.ts';
import { CommerceFailure, isFinal, isUnsent, LedgerUnavailable } from '../commerce/provider.ts';
import type { Providers } from '../commerce/providers.ts';
import type { Destinations } from '../destinations.ts';
import { ASK_A_PERSON } from '../return.ts';
import { loadSettings } from '../settings.ts';
import { cancelWithOrder } from './cancellation.ts';
import { closeReturn, failJob } from './finish.ts';
import { type Job, postponeJob, releaseJob } from './jobs.ts';
import { recordNoEffect, recordProblem } from './outcomes.ts';
import { AmountMismatch, EFFECT_WORDS, performStep } from './perform.ts';
import { NotProcessable, type Step } from './plan.ts';
import { type Prepared, prepare } from './prepare.ts';
import { atLocation, locationOf } from './restock.ts';

export interface RunDeps {
  readonly pool: pg.Pool;
  readonly destinations: Destinations;
  readonly logger: Logger;
  /** The pause after transient failures of the provider. */
  readonly retryBackoff: Backoff;
  readonly providers: Providers;
}

/**
 * Runs one job. It publishes `return.closed`, for a cancellation `return.updated`, or `return.processing.failed`, or it
 * queues the job for another run: after a transient failure, and when `signal` says that the worker stops. When `signal`
 * says that the lease is lost, it ends.
 *
 * The process may be killed at any await. Then another worker repeats every request that has no recorded result, with
 * the same keys. The end of a run is one transaction. When the database or an internal service is unavailable, the job
 * is queued again, and the run does not count as a failure. Rejects when the worker stops during such an outage; then
 * the lease expires.
 */
export async function runJob(deps: RunDeps, job: Job, signal: AbortSignal): Promise<void> {
  await withTraceparent(job.traceparent, async () => {
    const progress: Progress = { failures: job.failures, requested: undefined };
    try {
      await fulfil(deps, job, { signal, progress });
    } catch (error) {
      if (error instanceof LeaseLost) return logTakenOver(deps, job);
      const { failures, requested } = progress;
      if (isInternalOutage(error)) return afterOutage(deps, job, { error, signal });
      try {
        await afterFailure(deps, { ...job, failures }, { error, requested });
      } catch (failure) {
        // The next run repeats unrecorded requests with the same keys.
        if (!isInternalOutage(failure)) throw failure;
        await afterOutage(deps, job, { error: failure, signal });
      }
    }
  });
}

/** The progress of a run, for the case that it fails. */
interface Progress {
  failures: number;
  /** The step that the provider was requested to do, until its result is recorded. */
  requested: RequestedStep | undefined;
}

interface RequestedStep extends Step {
  readonly isSearchReliable: boolean;
}

async function fulfil(
  deps: RunDeps,
  job: Job,
  o: { readonly signal: AbortSignal; readonly progress: Progress },
): Promise<void> {
  const { pool } = deps;
  if (job.failureReason !== undefined) throw new NotProcessable(job.failureReason);
  if (job.isCancellation) return cancel(deps, job, o.progress);
  const prepared = await prepare(pool, job, deps.providers);
  const { restockMode, giftCardsAreExternal, steps, commerce } = prepared;
  // Read it before any payment, because the return cannot be closed without it.
  const location = await stockLocation(deps, job, prepared);
  const located = { ...prepared, stock: atLocation(prepared.stock, location) };
  for (const step of steps) {
    if (o.signal.aborted) return releaseJob(pool, job);
    o.progress.requested = { ...step, isSearchReliable: commerce.settledAfterMs === 0 };
    await performStep({ pool, job, prepared: located, step });
    o.progress.requested = undefined;
    o.progress.failures = 0;
  }
  await closeReturn(pool, { job, restockMode, giftCardsAreExternal, location });
}

function cancel(deps: RunDeps, job: Job, progress: Progress): Promise<void> {
  return cancelWithOrder(deps, job, {
    onRequest(step, { settledAfterMs }) {
      progress.requested = step && { ...step, isSearchReliable: settledAfterMs === 0 };
      if (!step) progress.failures = 0;
    },
  });
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

/** The pause after an internal outage, before its jitter. Milliseconds. */
const OUTAGE_PAUSE_MS = 2_000;

async function afterOutage(
  { pool, logger }: RunDeps,
  job: Job,
  { error, signal }: { readonly error: unknown; readonly signal: AbortSignal },
): Promise<void> {
  const pauseMs = equalJitter(OUTAGE_PAUSE_MS);
  const fields = { err: error, shop: String(job.shopId), return: String(job.returnId) };
  logger.warn(
    { ...fields, pauseMs },
    'processing job requeued: database or internal service unavailable',
  );
  try {
    await throughOutage(() => releaseJob(pool, job, pauseMs), signal);
  } catch (failure) {
    if (!(failure instanceof LeaseLost)) throw failure;
    logger.info({ job: String(job.id) }, 'job taken over by another worker');
  }
}

async function afterFailure(
  deps: RunDeps,
  job: Job,
  { error, requested }: { readonly error: unknown; readonly requested: RequestedStep | undefined },
): Promise<void> {
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
      return;
    }
  }
  try {
    const unknown = withoutEffect ? undefined : requested;
    await failJob(pool, job, { message: messageOf(error, job, unknown), withoutEffect });
    logger.warn(fields, 'processing failed');
  } catch (failure) {
    if (!(failure instanceof LeaseLost)) throw failure;
    logTakenOver(deps, job);
  }
}

/** Longer pauses are not granted: the limit of retries would end soon after them. Milliseconds. */
const MAX_REQUESTED_PAUSE_MS = 300_000;
/** An endpoint that asks for no pause gets a short one. Milliseconds. */
const MIN_REQUESTED_PAUSE_MS = 50;

/** The pause that the provider requested in its answer, or that the search needs; undefined without one. */
function requestedPauseMs(error: unknown): number | undefined {
  const requested = error instanceof CommerceFailure ? error.retryAfterMs : undefined;
  if (requested === undefined) return undefined;
  return Math.min(Math.max(requested, MIN_REQUESTED_PAUSE_MS), MAX_REQUESTED_PAUSE_MS);
}

/** Queues the job again, and records which step was requested without an effect. False as {@link postponeJob}. */
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

/**
 * Whether the step had no effect: its request was rejected, or surely not sent. After an earlier request without an
 * answer a rejection may mean the opposite: "the order was refunded already". Only our own ledger surely knows every
 * effect by its key.
 */
function hadNoEffect(error: unknown, step: RequestedStep | undefined): boolean {
  if (!step) return false;
  const isFirst = step.requestedMsAgo === undefined;
  return isFinal(error) ? isFirst || step.isSearchReliable : isFirst && isUnsent(error);
}

function isPermanent(error: unknown): boolean {
  return isFinal(error) || error instanceof NotProcessable || error instanceof AmountMismatch;
}

/**
 * A generic message. The log has the provider's own error.
 *
 * @param unknown the step whose request may have been fulfilled.
 */
function messageOf(error: unknown, { isCancellation }: Job, unknown: Step | undefined): string {
  const [what, again] = isCancellation
    ? ['The cancellation', 'cancel the return']
    : ['Processing', 'process the return'];
  if (error instanceof NotProcessable) return `${what} stopped: ${error.message}.`;
  if (error instanceof AmountMismatch) {
    return 'Processing stopped: the commerce provider used a different amount than requested. Look at its records, and have an operator record what they show (`commerce settle`).';
  }
  const where = error instanceof CommerceFailure ? ' at the commerce provider' : '';
  const text = `${what} failed${where}. Completed steps are kept; ${again} again to continue.`;
  if (!unknown) return text;
  return `${text} The ${EFFECT_WORDS[unknown.kind]} may have been made: the next run searches for it; ${ASK_A_PERSON}.`;
}

function logTakenOver(deps: RunDeps, job: Job): void {
  deps.logger.info({ job: String(job.id) }, 'job taken over by another worker');
}

/** The pause between two attempts to reach the database. */
const RECONNECT_BACKOFF = createBackoff({ firstMs: 250, longestMs: 500, jitter: equalJitter });

/**
 * Whether a run ended because the database or an internal service is unavailable. The commerce provider did not fail,
 * so it does not count as a failure.
 */
function isInternalOutage(error: unknown): boolean {
  return error instanceof LedgerUnavailable || isOutage(error) || isUnavailable(error);
}

/**
 * Repeats `work`, which writes to the row of a leased job, until the database is available. Otherwise the lease would
 * expire, which counts as a takeover of the job. Stops when the worker stops.
 *
 * @throws LeaseLost; an error of `work` that is not an outage; the last outage when `signal` is aborted.
 */
function throughOutage(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  return retry(work, { backoff: RECONNECT_BACKOFF, isTransient: isOutage, signal });
}
