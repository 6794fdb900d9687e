import type { Logger } from '../../services/platform/log.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { rowsOf, sql, unnamed } from '../../services/platform/sql.ts';
import { startLoop, type Worker } from '../../services/platform/worker.ts';

/** One request to one version. */
export interface VersionUse {
  readonly shopId: bigint;
  readonly credentialKind: 'api_key' | 'partner_app';
  /** Key id or client id. */
  readonly credentialId: string;
  /** The version in the path; empty when the path has none. */
  readonly requested: string;
  /** Method and path, such as `GET /cart/{token}`. */
  readonly operation: string;
}

export interface VersionUsage extends Worker {
  /** Counts a request in memory. The loop writes the counts later, many in one statement. Never throws. */
  used(use: VersionUse): void;
}

/** Interval of the writes. Milliseconds. */
const EVERY_MS = 60_000;
/** Maximum number of counters in memory. Until the next write, requests that need a new counter are not counted. */
const MAX_COUNTERS = 20_000;

interface Counter extends VersionUse {
  requests: number;
  lastAt: Date;
  readonly day: string;
}

/**
 * Counts which credential calls which version of the REST API, by day (UTC). A process that dies, or an outage of the
 * database, loses a minute of counts.
 */
export function startVersionUsage(db: Queryable, logger: Logger): VersionUsage {
  let counters = new Map<string, Counter>();
  const flush = async (): Promise<void> => {
    if (counters.size === 0) return;
    const rows = [...counters.values()];
    counters = new Map();
    await addCounts(db, rows);
  };
  const loop = startLoop({
    name: 'version-usage',
    idleMs: EVERY_MS,
    logger,
    step: async () => {
      await flush();
      return 'idle';
    },
  });
  return {
    used(use) {
      const now = new Date();
      const day = now.toISOString().slice(0, 10);
      const { shopId, credentialKind, credentialId, requested } = use;
      const key = [shopId, credentialKind, credentialId, requested, day].join(' ');
      const counter = counters.get(key);
      if (counter) {
        counter.requests += 1;
        counter.lastAt = now;
        Object.assign(counter, { operation: use.operation });
      } else if (counters.size < MAX_COUNTERS) {
        counters.set(key, { ...use, day, requests: 1, lastAt: now });
      }
    },
    async stop() {
      await loop.stop();
      // Losing a minute of counts must not make a shutdown fail.
      await flush().catch((error: unknown) =>
        logger.warn({ err: error }, 'version usage not written'),
      );
    },
  };
}

const counterRows = rowsOf<Counter>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  credential_kind: ['text', ({ credentialKind }) => credentialKind],
  credential_id: ['text', ({ credentialId }) => credentialId],
  requested: ['text', ({ requested }) => requested],
  day: ['date', ({ day }) => day],
  requests: ['bigint', ({ requests }) => BigInt(requests)],
  last_operation: ['text', ({ operation }) => operation],
  last_at: ['timestamptz', ({ lastAt }) => lastAt],
});

/** Adds the counts to their rows. It locks the rows in the order of their key, so that two replicas cannot deadlock. */
async function addCounts(db: Queryable, counters: readonly Counter[]): Promise<void> {
  await db.query(
    unnamed(sql`
     insert into version_usage as u
       (shop_id, credential_kind, credential_id, requested, day, requests, last_operation, last_at)
     select shop_id, credential_kind, credential_id, requested, day, requests, last_operation, last_at
       from ${counterRows('counted', counters)}
      order by shop_id, credential_kind, credential_id, requested, day
     on conflict (shop_id, credential_kind, credential_id, requested, day) do update
       set requests = u.requests + excluded.requests,
           last_operation = case when excluded.last_at >= u.last_at then excluded.last_operation else u.last_operation end,
           last_at = greatest(u.last_at, excluded.last_at)`),
  );
}

/** Maximum number of rows that one statement deletes, so that it does not hold locks for long. */
const BATCH = 5_000;

/** Deletes a batch of counts that are older than 90 days. Returns whether there may be more. Safe to run twice. */
export async function purgeVersionUsage(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from version_usage where ctid = any(array(
       select ctid from version_usage where day < (now() at time zone 'UTC')::date - 90
        limit $1 for update skip locked))`,
    [BATCH],
  );
  return rowCount === BATCH;
}
