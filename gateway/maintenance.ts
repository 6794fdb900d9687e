import type { Logger } from '../services/platform/log.ts';
import type { Queryable } from '../services/platform/postgres.ts';
import { startLoop, type Worker } from '../services/platform/worker.ts';
import { purgeCalls } from './mcp/repeats.ts';
import { purgeOAuthKeys } from './oauth/keys.ts';
import { purgeTickets } from './oauth/tickets.ts';

const EVERY_MS = 10 * 60_000;
/** Counters are kept a while after their window, for replicas whose clocks lag. Milliseconds. */
const KEEP_COUNTERS_MS = 60 * 60_000;

/** Removes some of what nobody needs any more; true when there may be more. Safe to run twice. */
type Purge = (db: Queryable) => Promise<unknown>;

/** Rows of one statement: a purge must not hold locks and fill the write-ahead log for long. */
const BATCH = 5_000;

async function purgeCounters(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from rate_limits where key in (
       select key from rate_limits where expire < $1 order by expire limit $2 for update skip locked)`,
    [Date.now() - KEEP_COUNTERS_MS, BATCH],
  );
  return rowCount === BATCH;
}

async function purgeAuditLog(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ purged: bigint }>('select purge_audit_log($1) as purged', [
    BATCH,
  ]);
  return Number(rows[0]?.purged) === BATCH;
}

const PURGES: Readonly<Record<string, Purge>> = {
  counters: purgeCounters,
  'audit log': purgeAuditLog,
  'tool calls': purgeCalls,
  tickets: purgeTickets,
  keys: purgeOAuthKeys,
};

/**
 * Removes what nobody needs any more: old counters, audit entries past 13 months, tool calls past their
 * day, codes, tokens and keys of the sign-in that have expired. Safe to run twice.
 */
export function startMaintenance(db: Queryable, logger: Logger): Worker {
  return startLoop({
    name: 'gateway-maintenance',
    idleMs: EVERY_MS,
    logger,
    step: (signal) => purgeAll(db, logger, signal),
  });
}

/**
 * Every purge once, whatever becomes of the others. One that fails is logged and has its next turn with
 * them: nothing waits for it, and what it keeps for ten minutes more does no harm.
 */
export async function purgeAll(
  db: Queryable,
  logger: Logger,
  signal: AbortSignal,
): Promise<'idle'> {
  for (const [purge, work] of Object.entries(PURGES)) {
    try {
      while (!signal.aborted && (await work(db)) === true);
    } catch (error) {
      logger.error({ err: error, purge }, 'purge failed');
    }
  }
  return 'idle';
}
