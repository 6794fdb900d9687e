import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode, type Settings } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { isUnavailable } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { isOutage } from '../../platform/outage.ts';
import { withTraceparent } from '../../platform/telemetry.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  isFinal,
  LedgerUnavailable,
} from '../commerce/provider.ts';
import type { Destinations } from '../destinations.ts';
import { loadSettings } from '../settings.ts';
import { closeReturn, failJob } from './finish.ts';
import { type Job, LeaseLost, postponeJob, type RetryDelay, releaseJob } from './jobs.ts';
import { OtherSum, performStep } from './perform.ts';
import type { Step } from './plan.ts';
import { NotProcessable, prepare } from './prepare.ts';
import type { ProviderGate } from './provider-gate.ts';
import { locationOf } from './restock.ts';

export interface RunDeps {
  readonly pool: pg.Pool;
  readonly commerce: CommerceProvider;
  readonly destinations: Destinations;
  readonly logger: Logger;
  readonly retryDelay: RetryDelay;
  /** Which shops have a commerce provider; every shop when absent. */
  readonly gate?: ProviderGate;
}

/**
 * Runs one job until `return.closed`, until a later attempt, until `return.processing.failed`, or until `signal` says
 * that the worker stops; then it queues the job again.
 *
 * The process may be killed at any await. Then another worker asks the provider again with the same keys for
 * everything that was not recorded; the end of the run is one transaction. After an outage of our own the job is
 * queued again, and the attempt does not count. Rejects when the worker stops during an outage; then the lease runs
 * out.
 */
export async function runJob(deps: RunDeps, job: Job, signal: AbortSignal): Promise<void> {
  await withTraceparent(job.traceparent, async () => {
    const progress: Progress = { failures: job.failures, asking: undefined };
    try {
      await fulfil(deps, job, { signal, progress });
    } catch (error) {
      if (error instanceof LeaseLost) return logTakenOver(deps, job);
      const { failures, asking } = progress;
      if (isOurOutage(error)) return afterOutage(deps, job, { error, signal });
      try {
        await afterFailure(deps, { ...job, failures }, { error, asking });
      } catch (failure) {
        // What could not be recorded is done again with the same keys.
        if (!isOurOutage(failure)) throw failure;
        await afterOutage(deps, job, { error: failure, signal });
      }
    }
  });
}

/** How far a run has come, for the case that it fails. */
interface Progress {
  failures: number;
  /** The step that the provider was asked for, until its answer is recorded. */
  asking: Step | undefined;
}

async function fulfil(
  deps: RunDeps,
  job: Job,
  o: { readonly signal: AbortSignal; readonly progress: Progress },
): Promise<void> {
  const { pool, commerce } = deps;
  if (job.fault !== undefined) throw new NotProcessable(job.fault);
  const { details, settings, giftCardsAreExternal, steps } = await prepare(pool, job, deps.gate);
  // Read before any money moves, because the return cannot be closed without it.
  const location = await stockLocation(deps, job, { details, settings });
  for (const step of steps) {
    if (o.signal.aborted) return releaseJob(pool, job);
    o.progress.asking = step;
    await performStep({ pool, commerce, job, details, step });
    o.progress.asking = undefined;
    o.progress.failures = 0;
  }
  await closeReturn(pool, { job, settings, giftCardsAreExternal, location });
}

async function stockLocation(
  deps: RunDeps,
  job: Job,
  o: { details: Return; settings: Settings },
): Promise<bigint> {
  if (o.settings.restockMode !== RestockMode.WEBHOOK) return 0n;
  return locationOf(deps.destinations, job, o.details);
}

/** The longest pause after an outage of our own; the shortest is half as long. Seconds. */
const OUTAGE_PAUSE_S = 2;

async function afterOutage(
  { pool, logger }: RunDeps,
  job: Job,
  { error, signal }: { readonly error: unknown; readonly signal: AbortSignal },
): Promise<void> {
  const delayS = OUTAGE_PAUSE_S * (0.5 + Math.random() / 2);
  const fields = { err: error, shop: String(job.shopId), return: String(job.returnId) };
  logger.warn(
    { ...fields, delayS },
    'processing job queued again: a part of our own is unavailable',
  );
  try {
    await throughOutage(() => releaseJob(pool, job, delayS), signal);
  } catch (failure) {
    if (!(failure instanceof LeaseLost)) throw failure;
    logger.info({ job: String(job.id) }, 'job taken over by another worker');
  }
}

async function afterFailure(
  deps: RunDeps,
  job: Job,
  { error, asking }: { readonly error: unknown; readonly asking: Step | undefined },
): Promise<void> {
  const { pool, logger } = deps;
  const delayS = deps.retryDelay(job.failures);
  const fields = { err: error, shop: String(job.shopId), return: String(job.returnId) };
  if (!isHopeless(error)) {
    const { processingRetryMinutes: limitMinutes } = await loadSettings(pool, job.shopId);
    if (await postponeJob(pool, job, { delayS, limitMinutes })) {
      logger.warn(
        { ...fields, failures: job.failures + 1, delayS },
        'processing attempt failed, retrying',
      );
      return;
    }
  }
  try {
    const refused = isFinal(error) ? asking : undefined;
    await failJob(pool, job, { message: messageOf(error), refused });
    logger.warn(fields, 'processing failed');
  } catch (failure) {
    if (!(failure instanceof LeaseLost)) throw failure;
    logTakenOver(deps, job);
  }
}

function isHopeless(error: unknown): boolean {
  return isFinal(error) || error instanceof NotProcessable || error instanceof OtherSum;
}

/** A generic message, because the error of the provider belongs into the log. */
function messageOf(error: unknown): string {
  if (error instanceof NotProcessable) return `Processing stopped: ${error.message}.`;
  if (error instanceof OtherSum) {
    return 'Processing stopped: the commerce provider has fulfilled a step with another sum than was asked for. Compare its books with the return.';
  }
  const where = error instanceof CommerceFailure ? ' at the commerce provider' : '';
  return `Processing failed${where}. What was done is kept; process the return again to continue.`;
}

function logTakenOver(deps: RunDeps, job: Job): void {
  deps.logger.info({ job: String(job.id) }, 'job taken over by another worker');
}

/** The pause between two tries to reach our own database. Milliseconds. */
const RECONNECT_MS = 500;

/**
 * Whether a run ended because a part of our own system did not answer: the database, or another service. It is no
 * fault of the commerce provider, so it does not count as an attempt.
 */
function isOurOutage(error: unknown): boolean {
  return error instanceof LedgerUnavailable || isOutage(error) || isUnavailable(error);
}

/**
 * Repeats `work`, which writes to a job that this worker holds, until our database is reachable. If the lease ran out
 * instead, it would count as a takeover of the job. Stops when the worker stops.
 *
 * @throws LeaseLost; any error of `work` that is no outage; the last outage when `signal` is aborted.
 */
async function throughOutage(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof LeaseLost || !isOutage(error) || signal.aborted) throw error;
    }
    await sleep(RECONNECT_MS, undefined, { signal }).catch(() => {});
  }
}
