import type pg from 'pg';
import { listen } from '../../platform/listen.ts';
import type { Logger } from '../../platform/log.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { claimJobs, JOBS_CHANNEL_PREFIX, type Job, renewJobs, untilNextDueMs } from './jobs.ts';

/** Returns processed at once by one replica; most of their time is spent at the commerce provider. */
const CONCURRENCY = 24;
/** How long a notification that was lost keeps work waiting. Milliseconds. */
const POLL_MS = 5_000;
/** What is due but locked by another replica is no reason to ask without a pause. Milliseconds. */
const MIN_REST_MS = 50;
/** Several heartbeats fit into a lease. Milliseconds. */
const HEARTBEAT_MS = 750;

export interface ProcessingWorkerOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** Runs one job to an end of its own; rejects only when the job stays leased. */
  readonly run: (job: Job, signal: AbortSignal) => Promise<void>;
}

/**
 * Takes due jobs and runs up to 24 at once, keeping their leases alive. Looks for work when one is
 * queued anywhere, when a retry or the lease of a dead worker falls due, and every 5 s. `wake` looks
 * at once. `stop` takes no more, and waits for those in flight, which end after the step they are in.
 */
export function startProcessingWorker(o: ProcessingWorkerOptions): Worker & { wake(): void } {
  const stopping = new AbortController();
  const active = new Map<Job, Promise<void>>();

  const launch = (job: Job): void => {
    const running = o
      .run(job, stopping.signal)
      // The lease runs out and another worker takes the job over.
      .catch((err) => o.logger.error({ err, job: String(job.id) }, 'a job was left to its lease'))
      .finally(() => {
        active.delete(job);
        loop.wake();
      });
    active.set(job, running);
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
      // With no place left, the next job to end looks again.
      if (jobs.length === free) return 'idle';
      const dueMs = (await untilNextDueMs(o.pool)) ?? POLL_MS;
      return Math.min(Math.max(MIN_REST_MS, Math.ceil(dueMs)), POLL_MS);
    },
  });
  const heartbeat = startLoop({
    name: 'processing leases',
    idleMs: HEARTBEAT_MS,
    logger: o.logger,
    step: async () => {
      if (active.size > 0) await renewJobs(o.pool, [...active.keys()]);
      return 'idle';
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
      await Promise.all(active.values());
      await heartbeat.stop();
    },
  };
}
