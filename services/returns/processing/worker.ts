import type pg from 'pg';
import { listen } from '../../platform/listen.ts';
import type { Logger } from '../../platform/log.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { claimJobs, type Job, PROCESSING, untilNextDueMs } from './jobs.ts';
import { JOBS_CHANNEL_PREFIX } from './queue.ts';

/** Maximum number of concurrent jobs of one process. They wait for the commerce provider most of the time. */
const CONCURRENCY = 24;
/** The maximum delay of a job whose notification was lost. Milliseconds. */
const POLL_MS = 5_000;
/** The minimum pause, because another process may have locked a due job. Milliseconds. */
const MIN_REST_MS = 50;
/** The pause when jobs are due and none could be taken. Milliseconds. */
const BUSY_REST_MS = 250;

export interface ProcessingWorkerOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** Runs one job. Rejects only if the job stays leased. The signal aborts when the worker stops or loses the lease. */
  readonly run: (job: Job, signal: AbortSignal) => Promise<void>;
}

/**
 * Claims due jobs, runs up to 24 concurrently, and renews their leases. Searches for jobs when any process queues one,
 * when a retry is due or a lease expires, every 5 s, and on `wake`. `stop` claims no more jobs and waits for the active
 * jobs, which stop after their current step.
 */
export function startProcessingWorker(o: ProcessingWorkerOptions): Worker & { wake(): void } {
  const stopping = new AbortController();
  const active = new Set<Promise<void>>();
  const heartbeat = PROCESSING.heartbeat(o.pool, o.logger);

  const launch = (job: Job): void => {
    const running = heartbeat
      .during([job], { signal: stopping.signal, work: (signal) => o.run(job, signal) })
      // The lease expires, and another worker takes over the job.
      .catch((err) =>
        o.logger.error(
          { err, job: String(job.id) },
          'processing run failed, job is retried when its lease expires',
        ),
      )
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
      if (free <= 0) return 'idle';
      const jobs = await claimJobs(o.pool, free);
      for (const job of jobs) launch(job);
      // At the maximum, the next job that ends wakes the loop.
      if (jobs.length === free) return 'idle';
      const dueMs = (await untilNextDueMs(o.pool)) ?? POLL_MS;
      // Every due job is locked, or its shop runs as many as it may. The end of a job wakes the loop.
      if (jobs.length === 0 && dueMs <= 0) return BUSY_REST_MS;
      return Math.min(Math.max(MIN_REST_MS, Math.ceil(dueMs)), POLL_MS);
    },
  });
  const listener = listen({
    pool: o.pool,
    logger: o.logger,
    channelPrefix: JOBS_CHANNEL_PREFIX,
    onNotify: () => loop.wake(),
  });

  return {
    wake: () => loop.wake(),
    async stop() {
      stopping.abort();
      await Promise.all([loop.stop(), listener.stop()]);
      await Promise.all(active);
    },
  };
}
