import pg from 'pg';
import { withLease } from '../leases/leases.ts';
import { startLoop, type Worker } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';
import { onlyRow } from './only-row.ts';
import type { Queryable } from './postgres.ts';

/** How many days before they are needed partitions are created, so that operators notice a stopped job in time. */
const DAYS_AHEAD = 3;
const EVERY_MS = 60 * 60 * 1_000;
const LEASE_MS = 60_000;
/** Pause before the next try when another session has locked the tables. Milliseconds. */
const BUSY_REST_MS = 60_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** SQL functions that create and drop the day partitions of each table, with the rights of the service's role. */
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

/** Creates the partitions of the coming days. Drops partitions that are older than the retention. */
export async function maintainPartitions(
  db: Queryable,
  o: PartitionOptions,
): Promise<{ made: number; dropped: number }> {
  const { create, drop } = STATEMENTS[o.table];
  const made = await db.query<{ count: number }>(create, [DAYS_AHEAD]);
  const dropped = await db.query<{ count: number }>(drop, [o.retentionDays]);
  return { made: onlyRow(made).count, dropped: onlyRow(dropped).count };
}

/** Starts {@link startDayKeeper} for the partitions of a table. */
export function startPartitionKeeper(
  o: PartitionOptions & Omit<DayKeeperOptions, 'name' | 'maintain'>,
): Worker {
  return startDayKeeper({
    ...o,
    name: `${o.table}-partitions`,
    maintain: () => maintainPartitions(o.pool, o),
  });
}

export interface DayKeeperOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** Name of the lease, which is also the name in logs. */
  readonly name: string;
  /** A name that only this process has ever had. */
  readonly owner: string;
  /** Creates and drops partitions. Returns the number of both. */
  readonly maintain: () => Promise<{ made: number; dropped: number }>;
}

/** Creates and drops the day partitions of tables every hour. A lease makes one of several replicas do it. */
export function startDayKeeper({ name, ...o }: DayKeeperOptions): Worker {
  return startLoop({
    name,
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async (signal) => {
      const work = () => o.maintain().catch(unlessBusy);
      const result = await withLease({ ...o, name, ttlMs: LEASE_MS, signal, work });
      if (result === 'busy') {
        o.logger.warn(`${name}: tables locked, partitions are created and dropped later`);
        return BUSY_REST_MS;
      }
      if (result && result.made + result.dropped > 0) o.logger.info(result, name);
      return 'idle';
    },
  });
}

/** Returns `busy` when another session, such as a backup, has locked the tables for too long. Throws other errors. */
function unlessBusy(error: unknown): 'busy' {
  if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return 'busy';
  throw error;
}
