import type pg from 'pg';
import type { Logger } from '../../platform/log.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { claimJobs, type Job } from './jobs.ts';

/** Returns processed at once by one replica. */
const CONCURRENCY = 8;
/** How soon work of another replica, or a retry that is due, is noticed. Milliseconds. */
const POLL_MS = 500;

export interface ProcessingWorkerOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** Runs one job to an end of its own; rejects only when the job stays leased. */
  readonly run: (job: Job, signal: AbortSignal) => Promise<void>;
}

/**
 * Takes due jobs and runs up to eight at once. `wake` looks for work at once. `stop` takes no more,
 * and waits for those in flight, which end after the step they are in.
 */
export function startProcessingWorker(o: ProcessingWorkerOptions): Worker & { wake(): void } {
  const stopping = new AbortController();
  const active = new Set<Promise<void>>();

  const launch = (job: Job): void => {
    const running = o
      .run(job, stopping.signal)
      // The lease runs out and another worker takes the job over.
      .catch((err) => o.logger.error({ err, job: String(job.id) }, 'a job was left to its lease'))
      .finally(() => {
        active.delete(running);
        loop.wake();
      });
    active.add(running);
  };

  const loop = startLoop({
    name: 'processing',
    idleMs: POLL_MS,
    logger: o.logger,
    step: async () => {
      const free = CONCURRENCY - active.size;
      if (free > 0) for (const job of await claimJobs(o.pool, free)) launch(job);
      return 'idle';
    },
  });

  return {
    wake: () => loop.wake(),
    async stop() {
      stopping.abort();
      await loop.stop();
      await Promise.all(active);
    },
  };
}
