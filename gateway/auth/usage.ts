import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { rowsOf, sql, unnamed } from '../../services/platform/postgres/sql.ts';
import { startLoop, type Worker } from '../../services/platform/process/worker.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';

/** One request to one version. */
interface VersionUse {
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

/** Interval of the writes, and the precision of `last_used_at`. Milliseconds. */
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
  const loop = startFlushing('version-usage', logger, flush);
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
    stop: () => loop.stop(),
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

export interface Usage extends Worker {
  /** Records that the key or grant was used. The loop writes it later, together with others. */
  used(id: string): void;
}

/** Writes `last_used_at` of API keys in the background: one statement per minute for all keys. */
export function startKeyUsage(db: Queryable, logger: Logger): Usage {
  return startUsage(db, logger, {
    name: 'key-usage',
    statement: `update api_keys set last_used_at = now()
       where key_id = any($1) and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
  });
}

/** Does the same as {@link startKeyUsage}, for the grants of assistants. */
export function startGrantUsage(db: Queryable, logger: Logger): Usage {
  return startUsage(db, logger, {
    name: 'grant-usage',
    statement: `update oauth_grants set last_used_at = now()
       where id = any($1) and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
  });
}

function startUsage(
  db: Queryable,
  logger: Logger,
  { name, statement }: { readonly name: string; readonly statement: string },
): Usage {
  let waiting = new Set<string>();
  const flush = async (): Promise<void> => {
    if (waiting.size === 0) return;
    const ids = [...waiting];
    waiting = new Set();
    await db.query(statement, [ids]);
  };
  const loop = startFlushing(name, logger, flush);
  return { used: (id) => waiting.add(id), stop: () => loop.stop() };
}

/** Runs `flush` every minute, and once more at the stop. */
function startFlushing(name: string, logger: Logger, flush: () => Promise<void>): Worker {
  const loop = startLoop({
    name,
    idleMs: EVERY_MS,
    logger,
    step: async () => {
      await flush();
      return 'idle';
    },
  });
  return {
    async stop() {
      await loop.stop();
      // Losing a minute of usage must not make a shutdown fail.
      await flush().catch((error: unknown) =>
        logger.warn({ err: error, name }, 'usage not written'),
      );
    },
  };
}

/** The requests of one credential to one version within 90 days. */
export interface VersionUsageRow {
  /** The version in the path; empty when the path has none. */
  readonly requested: string;
  readonly credentialKind: 'api_key' | 'partner_app';
  /** Key id or client id. */
  readonly credentialId: string;
  /** Description of an API key; null for apps. */
  readonly description: string | null;
  /** Why an API key no longer works; empty when it works, and for apps. */
  readonly credentialState: '' | 'revoked' | 'expired';
  readonly requests: bigint;
  readonly lastAt: Date;
  readonly lastOperation: string;
}

/** Which credentials of the shop called which versions, last use first. */
export async function listVersionUsage(
  db: Queryable,
  { shopId, limit }: { readonly shopId: bigint; readonly limit: number },
): Promise<VersionUsageRow[]> {
  const { rows } = await db.query<VersionUsageRow>(
    `select u.requested, u.credential_kind as "credentialKind", u.credential_id as "credentialId", k.description,
            case when k.revoked_at is not null then 'revoked' when k.expires_at <= now() then 'expired' else '' end
              as "credentialState",
            sum(u.requests)::bigint as requests, max(u.last_at) as "lastAt",
            (array_agg(u.last_operation order by u.last_at desc))[1] as "lastOperation"
       from version_usage u
       left join api_keys k
         on u.credential_kind = 'api_key' and k.shop_id = u.shop_id and k.key_id = u.credential_id
      where u.shop_id = $1 and u.day > (now() at time zone 'UTC')::date - 90
      group by u.requested, u.credential_kind, u.credential_id, k.description, k.revoked_at, k.expires_at
      order by max(u.last_at) desc, u.credential_id limit $2`,
    [shopId, limit],
  );
  return rows;
}
