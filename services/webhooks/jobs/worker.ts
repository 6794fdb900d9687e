import { isUnavailable } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { isOutage } from '../../platform/outage.ts';
import type { Telemetry } from '../../platform/telemetry.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { type BackfillBatchDependencies, backfillBatch } from './backfill-batch.ts';
import { type Claim, claimPart, readPart, retryPart } from './claim.ts';
import { replayBatch } from './replay-batch.ts';

export interface ReplayWorkerOptions extends BackfillBatchDependencies {
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

/** How long a job that another process started may lie before this one looks. Milliseconds. */
const IDLE_MS = 2_000;
/** Between two batches of this process, whatever their jobs. Milliseconds. */
const BETWEEN_MS = 20;
/** After a batch that failed. Milliseconds. */
const RETRY_MS = 5_000;

/**
 * Works on replays and backfills, a batch at a time. Any number of processes do so side by side: a
 * part of a job is claimed, and a claim that went to another is refused when its batch is noted.
 */
export function startReplays(o: ReplayWorkerOptions): Worker & { wake(): void } {
  const replayed = o.telemetry.meter.createCounter('webhooks.replayed', {
    description: 'Deliveries that replays and backfills set on their way',
  });
  const stale = o.telemetry.meter.createCounter('webhooks.replays.stale', {
    description: 'Batches refused because another process had their claim',
  });
  return startLoop({
    name: 'replays',
    idleMs: IDLE_MS,
    logger: o.logger,
    async step() {
      const claim = await claimPart(o.pool);
      if (!claim) return 'idle';
      const count = await batchOf(o, claim);
      if (count === undefined) {
        stale.add(1);
        o.logger.warn({ jobId: claim.jobId }, 'a batch was refused: another process had its claim');
      } else if (count > 0) {
        replayed.add(count);
      }
      return BETWEEN_MS;
    },
  });
}

/** Does the claimed batch; one that fails is left for later. */
export async function batchOf(
  o: BackfillBatchDependencies & { readonly logger: Logger },
  claim: Claim,
): Promise<number | undefined> {
  try {
    const part = await readPart(o.pool, claim);
    if (!part) return undefined;
    if (part.kind === 'backfill') return await backfillBatch(o, part);
    return await replayBatch(o.pool, claim, { offsetMs: o.offsetMs() });
  } catch (error) {
    const isFault = !isOutage(error) && !isUnavailable(error);
    await retryPart(o.pool, claim, { restMs: RETRY_MS, isFault });
    const { jobId, shopId } = claim;
    o.logger[isFault ? 'error' : 'warn']({ err: error, jobId, shopId }, 'a batch failed');
    return 0;
  }
}
