import { isUnavailable } from '../../platform/errors.ts';
import { LeaseLost } from '../../platform/lease-lost.ts';
import type { Logger } from '../../platform/log.ts';
import { isOutage } from '../../platform/outage.ts';
import type { Telemetry } from '../../platform/telemetry.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { type BackfillBatchDependencies, backfillBatch } from './backfill-batch.ts';
import { type Claim, claimPart, PARTS, readPart, retryPart } from './claim.ts';
import { replayBatch } from './replay-batch.ts';

export interface ReplayWorkerOptions extends BackfillBatchDependencies {
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

/** Maximum time until this process finds a job that another process started. Milliseconds. */
const IDLE_MS = 2_000;
/** Pause of this process between two batches, of the same job or not. Milliseconds. */
const BETWEEN_MS = 20;
/** Pause after a failed batch. Milliseconds. */
const RETRY_MS = 5_000;

/**
 * Starts the loop that works on replays and backfills, one batch at a time. Several processes may run it in parallel.
 * Each batch needs a claim on its part. A batch whose claim is lost is rolled back.
 */
export function startReplays(o: ReplayWorkerOptions): Worker & { wake(): void } {
  const replayed = o.telemetry.meter.createCounter('webhooks.replayed', {
    description: 'Deliveries started by replays and backfills',
  });
  const stale = o.telemetry.meter.createCounter('webhooks.replays.stale', {
    description: 'Batches that were rolled back because another process had claimed their part',
  });
  const heartbeat = PARTS.heartbeat(o.pool, o.logger);
  return startLoop({
    name: 'replays',
    idleMs: IDLE_MS,
    logger: o.logger,
    async step() {
      const claim = await claimPart(o.pool);
      if (!claim) return 'idle';
      try {
        const count = await heartbeat.during([claim], { work: () => batchOf(o, claim) });
        if (count > 0) replayed.add(count);
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        stale.add(1);
        o.logger.warn({ jobId: claim.jobId }, 'job batch dropped, claim lost');
      }
      return BETWEEN_MS;
    },
  });
}

/** Runs the claimed batch. When it fails, it is repeated later. @throws LeaseLost */
async function batchOf(
  o: BackfillBatchDependencies & { readonly logger: Logger },
  claim: Claim,
): Promise<number> {
  try {
    const part = await readPart(o.pool, claim);
    if (part.kind === 'backfill') return await backfillBatch(o, part);
    return await replayBatch(o.pool, claim, { offsetMs: o.offsetMs() });
  } catch (error) {
    if (error instanceof LeaseLost) throw error;
    const isTransient = isOutage(error) || isUnavailable(error);
    await retryPart(o.pool, claim, { restMs: RETRY_MS, isOutage: isTransient });
    const { jobId, shopId } = claim;
    o.logger[isTransient ? 'warn' : 'error']({ err: error, jobId, shopId }, 'a batch failed');
    return 0;
  }
}
