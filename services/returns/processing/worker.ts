import type pg from 'pg';
import { listen } from '../../platform/listen.ts';
import type { Logger } from '../../platform/log.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { claimJobs, type Job, PROCESSING, untilNextDueMs } from './jobs.ts';
import { JOBS_CHANNEL_PREFIX } from './queue.ts';
import { startTakeover } from './takeover.ts';

/** Maximum number of concurrent jobs of one process. Most of the time they wait for the commerce provider. */
const CONCURRENCY = 24;
/** Maximum time until a job is found whose notification was lost. Milliseconds. */
const POLL_MS = 5_000;
/** Minimum pause, because another process may have locked a due job. Milliseconds. */
const MIN_REST_MS = 50;
/** Pause when jobs are due and none could be claimed. Milliseconds. */
const BUSY_REST_MS = 250;

export interface ProcessingWorkerOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /**
   * Runs one job. Rejects only when the job stays leased. The signal aborts when the worker stops, or when the lease is
   * lost.
   */
  readonly run: (job: Job, signal: AbortSignal) => Promise<void>;
}

/**
 * Starts the worker. It claims due jobs, runs up to 24 of them concurrently, and renews their leases. It searches for
 * jobs when any process queues one, when a retry is due, every 5 s, and on `wake`. It also takes over the jobs of dead
 * workers. `stop` claims no more jobs, and waits for the active jobs. These end after their current step.
 */
export function startProcessingWorker(o: ProcessingWorkerOptions): Worker & { wake(): void } {
  const stopping = new AbortController();
  const active = new Set<Promise<void>>();
  const heartbeat = PROCESSING.heartbeat(o.pool, o.logger);

  const launch = (job: Job): void => {
    const running = heartbeat
      .during([job], { signal: stopping.signal, work: (signal) => o.run(job, signal) })
      // The lease expires, and then another worker takes over the job.
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
      // This process now runs its maximum number of jobs. The next job that ends wakes the loop.
      if (jobs.length === free) return 'idle';
      const dueMs = (await untilNextDueMs(o.pool)) ?? POLL_MS;
      // Every due job is locked, or its shop already runs its maximum number. The end of a job wakes the loop.
      if (jobs.length === 0 && dueMs <= 0) return BUSY_REST_MS;
      return Math.min(Math.max(MIN_REST_MS, Math.ceil(dueMs)), POLL_MS);
    },
  });
  const takeover = startTakeover(o);
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
      await Promise.all([loop.stop(), takeover.stop(), listener.stop()]);
      await Promise.all(active);
    },
  };
}
