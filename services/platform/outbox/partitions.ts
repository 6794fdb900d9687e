import type pg from 'pg';
import { withLease } from '../leases.ts';
import type { Logger } from '../log.ts';
import type { Queryable } from '../postgres.ts';
import { startLoop, type Worker } from '../worker.ts';

/** Partitions exist this long before they are needed, so a stopped job is noticed in time. */
const DAYS_AHEAD = 3;
const EVERY_MS = 60 * 60 * 1_000;
const LEASE_MS = 60_000;

/** Makes the partitions of the coming days and drops those past the retention. */
export async function tendPartitions(
  db: Queryable,
  retentionDays: number,
): Promise<{ made: number; dropped: number }> {
  const made = await db.query<{ count: number }>('select create_event_partitions($1) as count', [
    DAYS_AHEAD,
  ]);
  const dropped = await db.query<{ count: number }>('select drop_event_partitions($1) as count', [
    retentionDays,
  ]);
  return { made: made.rows[0]?.count ?? 0, dropped: dropped.rows[0]?.count ?? 0 };
}

/** Tends the partitions every hour; of several replicas one does. */
export function startPartitionKeeper(o: {
  pool: pg.Pool;
  owner: string;
  retentionDays: number;
  logger: Logger;
}): Worker {
  return startLoop({
    name: 'event partitions',
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async (signal) => {
      const lease = { pool: o.pool, name: 'event-partitions', owner: o.owner, ttlMs: LEASE_MS };
      const work = () => tendPartitions(o.pool, o.retentionDays);
      const result = await withLease({ ...lease, signal, work });
      if (result && result.made + result.dropped > 0) o.logger.info(result, 'event partitions');
      return 'idle';
    },
  });
}
