import type { Logger } from '../services/platform/log.ts';
import type { Queryable } from '../services/platform/postgres.ts';
import { startLoop, type Worker } from '../services/platform/worker.ts';
import { purgeVersionUsage } from './auth/version-usage.ts';
import { purgeMails } from './mail/store.ts';
import { purgeCalls } from './mcp/idempotency.ts';
import { purgeOAuthKeys } from './oauth/keys.ts';
import { purgeOneTimeRecords } from './oauth/one-time-records.ts';
import { purgePortalSessions } from './portal/sessions.ts';

const EVERY_MS = 10 * 60_000;
/** Counters are kept this long after their window, because the clocks of replicas may differ. Milliseconds. */
const KEEP_COUNTERS_MS = 60 * 60_000;

/** Deletes a batch of old rows. Returns true when there may be more. Safe to run twice. */
type Purge = (db: Queryable) => Promise<unknown>;

/** Maximum number of rows per statement, so that locks and write-ahead log stay small. */
const BATCH = 5_000;

async function purgeCounters(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from rate_limits where key in (
       select key from rate_limits where expire < $1 order by expire limit $2 for update skip locked)`,
    [Date.now() - KEEP_COUNTERS_MS, BATCH],
  );
  return rowCount === BATCH;
}

/** The gateway's role cannot delete rows of the audit log. This function deletes those that are older than 13 months. */
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
  'one-time records': purgeOneTimeRecords,
  keys: purgeOAuthKeys,
  'portal sessions': purgePortalSessions,
  'version usage': purgeVersionUsage,
  mails: purgeMails,
};

/**
 * Starts a loop that deletes old counters, audit entries older than 13 months, tool calls older than a day, expired
 * codes, tokens and keys of the sign-in, ended sessions of the portal, counts of version usage, and mails that ended 30
 * days ago. Safe to run in several replicas.
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
 * Runs every purge once. A failed purge is logged and runs again in the next round, after ten minutes; it does not
 * stop the others.
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
