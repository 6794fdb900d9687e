import type pg from 'pg';
import { createLeaseWatch, type LeaseWatch, type StoredLease } from '../../platform/lease-watch.ts';
import type { Logger } from '../../platform/log.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, param, raw, rowsOf, sql } from '../../platform/sql.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { IS_LEASED, LEASE_MS, OPEN_JOB, queued } from './jobs.ts';
import { JOBS_CHANNEL_PREFIX } from './queue.ts';

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
              where ${OPEN_JOB} and not ${IS_LEASED} and due_at > now() + interval '${NO_PAUSE}'
             returning id
           )
           select pg_notify($1 || current_schema(), '') from hurried`,
    values: [JOBS_CHANNEL_PREFIX],
  });
}

/** Starts the loop that takes over the jobs of dead workers. */
export function startTakeover(o: { readonly pool: pg.Pool; readonly logger: Logger }): Worker {
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
