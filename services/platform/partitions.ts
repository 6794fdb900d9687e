import pg from 'pg';
import { withLease } from './leases.ts';
import type { Logger } from './log.ts';
import type { Queryable } from './postgres.ts';
import { startLoop, type Worker } from './worker.ts';

/** Partitions exist this long before they are needed, so a stopped job is noticed in time. */
const DAYS_AHEAD = 3;
const EVERY_MS = 60 * 60 * 1_000;
const LEASE_MS = 60_000;
/** Until the next try when the tables are in use. */
const BUSY_REST_MS = 60_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** Tables of day partitions; each has functions that make and drop them on the service's behalf. */
const STATEMENTS = {
  event: {
    create: 'select create_event_partitions($1) as count',
    drop: 'select drop_event_partitions($1) as count',
  },
  consumed: {
    create: 'select create_consumed_partitions($1) as count',
    drop: 'select drop_consumed_partitions($1) as count',
  },
} as const;

export type PartitionedTable = keyof typeof STATEMENTS;

export interface PartitionOptions {
  readonly table: PartitionedTable;
  readonly retentionDays: number;
}

/** Makes the partitions of the coming days and drops those past the retention. */
export async function tendPartitions(
  db: Queryable,
  o: PartitionOptions,
): Promise<{ made: number; dropped: number }> {
  const { create, drop } = STATEMENTS[o.table];
  const made = await db.query<{ count: number }>(create, [DAYS_AHEAD]);
  const dropped = await db.query<{ count: number }>(drop, [o.retentionDays]);
  return { made: made.rows[0]?.count ?? 0, dropped: dropped.rows[0]?.count ?? 0 };
}

/** Tends the partitions of a table, see {@link startDayKeeper}. */
export function startPartitionKeeper(
  o: PartitionOptions & Omit<DayKeeperOptions, 'name' | 'tend'>,
): Worker {
  return startDayKeeper({
    ...o,
    name: `${o.table}-partitions`,
    tend: () => tendPartitions(o.pool, o),
  });
}

export interface DayKeeperOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** Of the lease, and in logs. */
  readonly name: string;
  /** This process, by a name that no other ever has. */
  readonly owner: string;
  /** Makes and drops days; says how many. */
  readonly tend: () => Promise<{ made: number; dropped: number }>;
}

/** Makes and drops the days of tables every hour; of several replicas one does. */
export function startDayKeeper({ name, ...o }: DayKeeperOptions): Worker {
  return startLoop({
    name,
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async (signal) => {
      const lease = { pool: o.pool, name, owner: o.owner, ttlMs: LEASE_MS };
      const work = () => o.tend().catch(unlessBusy);
      const result = await withLease({ ...lease, signal, work });
      if (result === 'busy') {
        o.logger.warn(`${name}: the tables are in use, days are made and dropped later`);
        return BUSY_REST_MS;
      }
      if (result && result.made + result.dropped > 0) o.logger.info(result, name);
      return 'idle';
    },
  });
}

/** Somebody holds the tables for long, a backup perhaps. Each try stops the others for a moment. */
function unlessBusy(error: unknown): 'busy' {
  if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return 'busy';
  throw error;
}
