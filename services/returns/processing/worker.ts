import { AsyncLocalStorage } from 'node:async_hooks';
import type { Meter, ObservableCallback } from '@opentelemetry/api';
import type pg from 'pg';
import {
  createLeaseWatch,
  type LeaseWatch,
  type StoredLease,
} from '../../platform/leases/lease-watch.ts';
import { listen } from '../../platform/postgres/listen.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { sharedWithTimeout } from '../../platform/postgres/shared-with-timeout.ts';
import { named, param, raw, rowsOf, sql } from '../../platform/postgres/sql.ts';
import { startLoop, type Worker } from '../../platform/process/worker.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import {
  claimJobs,
  IS_LEASED,
  IS_WAITING,
  JOBS_CHANNEL_PREFIX,
  type Job,
  LEASE_MS,
  OPEN_JOB,
  PROCESSING,
  type QueuedJob,
  queued,
  untilNextDueMs,
} from './jobs.ts';

/** Maximum number of concurrent jobs of one process. Most of the time they wait for the commerce provider. */
const CONCURRENCY = 24;
/**
 * Maximum number of calls that may queue a job with a lease of this process. Calls may wait for a row, and the worker must
 * still have places for the jobs that are due.
 */
const MAX_CALLS = CONCURRENCY / 2;
/** Maximum time until a job is found whose notification was lost. Milliseconds. */
const POLL_MS = 5_000;
/** Minimum pause, because another process may have locked a due job. Milliseconds. */
const MIN_REST_MS = 50;
/** Pause when jobs are due and none could be claimed. Milliseconds. */
const BUSY_REST_MS = 250;

/** How a run of a job ended: with the job, or with its job queued for another run. */
export type RunEnd = 'ended' | 'queued';

interface ProcessingWorkerOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /**
   * Runs one job. Rejects only when the job stays leased. The signal aborts when the worker stops, or when the lease is
   * lost.
   */
  readonly run: (job: Job, signal: AbortSignal) => Promise<RunEnd>;
}

/** Where a call that queues a job may have it run. */
export interface JobPlaces {
  /**
   * Calls `queue` with whether this process can run one more job now. Then `queue` may return a job of which this process
   * has the lease, and the job runs. So most jobs need no claim.
   *
   * When the process dies before the job runs, or the outcome of the commit is unknown, the lease expires, and another
   * worker takes over the job.
   */
  queueing<T extends { readonly queued?: QueuedJob }>(
    queue: (mayLease: boolean) => Promise<T>,
  ): Promise<T>;
}

/** The places of a process without a worker. */
export const NO_PLACES: JobPlaces = { queueing: (queue) => queue(false) };

/**
 * Starts the worker. It claims due jobs, runs up to 24 of them concurrently, and renews their leases. It searches for
 * jobs when any process queues one without a lease, when a retry is due, every 5 s, and on `wake`. It also takes over
 * the jobs of dead workers. `stop` claims no more jobs, and waits for the active jobs. These end after their current
 * step.
 */
export function startProcessingWorker(
  o: ProcessingWorkerOptions,
): Worker & JobPlaces & { wake(): void } {
  const stopping = new AbortController();
  const active = new Set<Promise<void>>();
  /** Calls that may queue a job with a lease of this process. */
  const calls = new Set<Promise<unknown>>();
  /** Whether jobs may be due that no worker has. They come before new ones. */
  let isWorkLeft = true;
  const heartbeat = PROCESSING.heartbeat(o.pool, o.logger);
  // A job must not inherit the trace and the abort signal of the call that queued it.
  const inOwnContext = AsyncLocalStorage.snapshot();

  const launch = (job: Job): void => {
    const running = inOwnContext(() =>
      heartbeat.during([job], { signal: stopping.signal, work: (signal) => o.run(job, signal) }),
    )
      .then((end) => {
        if (end === 'queued') loop.wake();
      })
      // The lease expires, and then another worker takes over the job.
      .catch((err) =>
        o.logger.error(
          { err, job: String(job.id) },
          'processing run failed, job is retried when its lease expires',
        ),
      )
      .finally(() => {
        active.delete(running);
        if (isWorkLeft) loop.wake();
      });
    active.add(running);
  };

  const free = () => CONCURRENCY - active.size - calls.size;

  const loop = startLoop({
    name: 'processing',
    idleMs: POLL_MS,
    logger: o.logger,
    step: async () => {
      // No new job gets a place while this step counts on the free ones.
      isWorkLeft = true;
      const places = free();
      if (places <= 0) return 'idle';
      const jobs = await claimJobs(o.pool, places);
      for (const job of jobs) launch(job);
      // This process now runs its maximum number of jobs. The next job that ends wakes the loop.
      if (jobs.length === places) return 'idle';
      const dueMs = (await untilNextDueMs(o.pool)) ?? POLL_MS;
      // Every due job is locked, or its shop already runs its maximum number. The end of a job wakes the loop.
      isWorkLeft = dueMs <= 0;
      if (jobs.length === 0 && isWorkLeft) return BUSY_REST_MS;
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
    async queueing(queue) {
      const mayLease =
        !isWorkLeft && !stopping.signal.aborted && free() > 0 && calls.size < MAX_CALLS;
      const call = queue(mayLease);
      if (mayLease) calls.add(call);
      try {
        const result = await call;
        const { queued: job } = result;
        if (job === 'waiting') loop.wake();
        else if (job) launch(job);
        return result;
      } finally {
        calls.delete(call);
        if (isWorkLeft) loop.wake();
      }
    },
    async stop() {
      stopping.abort();
      await Promise.all([loop.stop(), takeover.stop(), listener.stop()]);
      await Promise.allSettled(calls);
      await Promise.all(active);
    },
  };
}

/** How often the leases are read. A live worker renews them as often. Milliseconds. */
const WATCH_EVERY_MS = LEASE_MS / 4;
/** Time from the expiry of a lease to its check. Milliseconds. */
const AFTER_EXPIRY_MS = 20;
/** Maximum number of leases that are read at once: of many processes with their maximum number of jobs. */
const MAX_LEASES = 1_000;

const deadLeases = rowsOf<StoredLease>({
  token: ['bigint', ({ name }) => BigInt(name)],
  expires_at: ['timestamptz', ({ expiresAt }) => expiresAt],
});

/**
 * Queues the jobs of dead workers, so that live ones claim them. `watch` says which workers are dead. A step of the
 * database's clock alone takes no job from a live worker, and delays no job by more than ten minutes.
 *
 * @returns the number of queued jobs, and the time until the next lease expires, if any. Milliseconds.
 */
export async function takeOverJobs(
  db: Queryable,
  watch: LeaseWatch,
): Promise<{ readonly taken: number; readonly nextMs: number | undefined }> {
  await hurryJobs(db);
  const queriedMs = performance.now();
  const { rows } = await db.query<StoredLease>({
    name: 'processing-leases',
    text: `select lease_token::text as name, due_at::text as "expiresAt",
                  extract(epoch from due_at - clock_timestamp())::float8 * 1000 as "endsInMs"
             from processing_jobs where ${IS_LEASED} order by due_at limit $1`,
    values: [MAX_LEASES],
  });
  const dead = watch.dead(rows, queriedMs);
  const nextMs = rows.find(({ endsInMs }) => endsInMs > 0)?.endsInMs;
  if (dead.length === 0) return { taken: 0, nextMs };
  // A lease that was renewed in the meantime has another expiry.
  const { rowCount } = await db.query(
    named(
      'processing-take-over',
      sql`
with locked as (
  select job.shop_id, job.id from processing_jobs job
    join ${deadLeases('dead', dead)} on job.lease_token = dead.token and job.due_at = dead.expires_at
   where ${raw(IS_LEASED)} for no key update of job skip locked
), taken as (
  update processing_jobs job set ${queued(param(0))}, takeovers = takeovers + 1
    from locked where job.shop_id = locked.shop_id and job.id = locked.id
  returning job.id
)
select pg_notify(${JOBS_CHANNEL_PREFIX} || current_schema(), '') from taken`,
    ),
  );
  return { taken: rowCount ?? 0, nextMs };
}

/** Longer than any pause of a job, see `requestedPauseMs` and `RETRY_BACKOFF`. A PostgreSQL interval. */
const NO_PAUSE = '10 minutes';

/** Makes jobs due that were queued before the clock of the database was set back, so that they do not wait for hours. */
async function hurryJobs(db: Queryable): Promise<void> {
  await db.query({
    name: 'processing-hurry',
    text: `with hurried as (
             update processing_jobs set due_at = now()
              where ${IS_WAITING} and due_at > now() + interval '${NO_PAUSE}'
             returning id
           )
           select pg_notify($1 || current_schema(), '') from hurried`,
    values: [JOBS_CHANNEL_PREFIX],
  });
}

/** Starts the loop that takes over the jobs of dead workers. */
function startTakeover(o: { readonly pool: pg.Pool; readonly logger: Logger }): Worker {
  const watch = createLeaseWatch(LEASE_MS);
  return startLoop({
    name: 'processing takeover',
    logger: o.logger,
    step: async () => {
      const { taken, nextMs = WATCH_EVERY_MS } = await takeOverJobs(o.pool, watch);
      if (taken > 0) o.logger.warn({ jobs: taken }, 'jobs of a dead worker queued again');
      return Math.min(WATCH_EVERY_MS, nextMs + AFTER_EXPIRY_MS);
    },
  });
}

/**
 * Adds a metric: how long the oldest queued return has waited. An internal outage does not count as a failure of
 * processing. So only this age shows a return that is tried again and again.
 */
export function measureBacklog(o: { readonly pool: Queryable; readonly meter: Meter }): Worker {
  const age = o.meter.createObservableGauge('processing_oldest_age_seconds', {
    description: 'Time since the oldest return that is not processed yet was queued.',
    unit: 's',
  });
  const readAge = sharedWithTimeout(() => oldestAgeSeconds(o.pool));
  const observe: ObservableCallback = async (result) => {
    const seconds = await readAge();
    if (seconds !== undefined) result.observe(seconds);
  };
  age.addCallback(observe);
  return { stop: async () => age.removeCallback(observe) };
}

/** Returns the age in seconds; 0 when no return is queued. */
async function oldestAgeSeconds(db: Queryable): Promise<number> {
  const result = await db.query<{ seconds: number }>(
    `select coalesce(extract(epoch from now() - min(queued_at)), 0)::float8 as seconds
       from processing_jobs where ${OPEN_JOB}`,
  );
  return onlyRow(result).seconds;
}
