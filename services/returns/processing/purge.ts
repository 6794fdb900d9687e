import type pg from 'pg';
import type { Logger } from '../../platform/log.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';

/** How long finished jobs are kept, so that people can investigate a failed run. The timeline is kept longer. Days. */
const KEEP_DAYS = 30;
const BATCH = 1_000;
const PURGE_MS = 3_600_000;

/**
 * Starts the loop that deletes finished jobs and their additional details after 30 days. It keeps the last failed job
 * of a return that can still be processed, because the next run uses its details.
 */
export function startJobPurge(o: { pool: pg.Pool; logger: Logger }): Worker {
  return startLoop({
    name: 'processing-purge',
    idleMs: PURGE_MS,
    logger: o.logger,
    step: async () => ((await purgeJobs(o.pool)) < BATCH ? 'idle' : 'again'),
  });
}

/** Deletes up to a thousand jobs. @returns their number. */
export async function purgeJobs(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `delete from processing_jobs where (shop_id, id) in (
       select j.shop_id, j.id from processing_jobs j
       where j.state in ('done', 'failed') and j.finished_at < now() - make_interval(days => $1)
         and not (
           j.state = 'failed'
           and exists (
             select from returns r
             where r.shop_id = j.shop_id and r.id = j.return_id and r.state in ('open', 'review'))
           and not exists (
             select from processing_jobs newer
             where newer.shop_id = j.shop_id and newer.return_id = j.return_id
               and newer.state = 'failed' and newer.id > j.id))
       limit $2)`,
    [KEEP_DAYS, BATCH],
  );
  return rowCount ?? 0;
}
