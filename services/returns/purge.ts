import type pg from 'pg';
import type { Logger } from '../platform/log.ts';
import type { Queryable } from '../platform/postgres.ts';
import { startLoop, type Worker } from '../platform/worker.ts';

const TIMELINE_DAYS = 400;
const EVERY_MS = 60 * 60 * 1_000;
/** Rows removed by one statement: a long delete would hold up others. */
const ROWS = 5_000;

/**
 * Removes what is past its time: timeline entries after 400 days, large snapshots with the events
 * that refer to them. Safe to run in several replicas.
 */
export function startPurge(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly snapshotDays: number;
}): Worker {
  return startLoop({
    name: 'returns: purge',
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async () => {
      const removed = await purge(o.pool, o.snapshotDays);
      return removed > 0 ? 'again' : 'idle';
    },
  });
}

/** One step of the purge; says how many rows went. */
export async function purge(db: Queryable, snapshotDays: number): Promise<number> {
  const entries = await db.query(
    `delete from timeline
      where (shop_id, return_id, id) in (
        select shop_id, return_id, id from timeline
         where occurred_at < now() - $1 * interval '1 day' limit $2)`,
    [TIMELINE_DAYS, ROWS],
  );
  const snapshots = await db.query(
    `delete from snapshots
      where (shop_id, return_id, revision) in (
        select shop_id, return_id, revision from snapshots
         where created_at < now() - $1 * interval '1 day' limit $2)`,
    [snapshotDays, ROWS],
  );
  return (entries.rowCount ?? 0) + (snapshots.rowCount ?? 0);
}
