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

const PURGES: Readonly<Record<string, Purge>> = {
  counters: (db) =>
    db.query('delete from rate_limits where expire < $1', [Date.now() - KEEP_COUNTERS_MS]),
  'audit log': (db) => db.query('select purge_audit_log()'),
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
