import type { Logger } from '../services/platform/log.ts';
import type { Queryable } from '../services/platform/postgres.ts';
import { startLoop, type Worker } from '../services/platform/worker.ts';
import { purgeCalls } from './mcp/repeats.ts';
import { purgeOAuthKeys } from './oauth/keys.ts';
import { purgeTickets } from './oauth/tickets.ts';

const EVERY_MS = 10 * 60_000;
/** Counters are kept a while after their window, for replicas whose clocks lag. Milliseconds. */
const KEEP_COUNTERS_MS = 60 * 60_000;

/**
 * Removes what nobody needs any more: old counters, audit entries past 13 months, tool calls past their
 * day, codes, tokens and keys of the sign-in that have expired. Safe to run twice.
 */
export function startMaintenance(db: Queryable, logger: Logger): Worker {
  return startLoop({
    name: 'gateway-maintenance',
    idleMs: EVERY_MS,
    logger,
    step: async () => {
      await db.query('delete from rate_limits where expire < $1', [Date.now() - KEEP_COUNTERS_MS]);
      await db.query('select purge_audit_log()');
      await purgeCalls(db);
      await purgeTickets(db);
      await purgeOAuthKeys(db);
      return 'idle';
    },
  });
}
