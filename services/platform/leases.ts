import type pg from 'pg';
import { createHeartbeat } from './heartbeat.ts';
import type { Logger } from './log.ts';
import type { Queryable } from './postgres.ts';

/**
 * The right of a process to do one named piece of work. It lasts until the lease expires by the clock of the database.
 */
export interface Lease {
  readonly name: string;
  readonly owner: string;
  /**
   * Number of the acquisition. It is larger than that of any earlier acquisition of any lease, so that work of an
   * earlier owner is recognized.
   */
  readonly token: bigint;
}

/**
 * Takes a lease that is free or expired. Returns undefined while a process owns it, even this process.
 *
 * When the clock of the database was set back, the expiry of a lease may be too far in the future. Such a lease expires
 * after `ttlMs`, unless its owner is alive and renews it.
 */
export async function acquireLease(
  db: Queryable,
  o: { name: string; owner: string; ttlMs: number },
): Promise<Lease | undefined> {
  const { rows } = await db.query<{ token: bigint }>(
    `insert into leases as current (name, owner, token, expires_at)
     values ($1, $2, nextval('lease_tokens'), clock_timestamp() + $3 * interval '1 millisecond')
     on conflict (name) do update
       set owner = excluded.owner, token = nextval('lease_tokens'),
           expires_at = clock_timestamp() + $3 * interval '1 millisecond'
       where current.expires_at <= clock_timestamp()
     returning token`,
    [o.name, o.owner, o.ttlMs],
  );
  const [row] = rows;
  if (!row) await db.query(SHORTEN, [o.name, o.ttlMs]);
  return row && { name: o.name, owner: o.owner, token: row.token };
}

const SHORTEN = `
update leases set expires_at = clock_timestamp() + $2 * interval '1 millisecond'
 where name = $1 and expires_at > clock_timestamp() + 2 * $2 * interval '1 millisecond'`;

/**
 * Renews the lease, even after its expiry, unless another process took it. Returns false when the lease is lost. A lost
 * lease stays lost.
 */
export async function renewLease(db: Queryable, lease: Lease, ttlMs: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update leases set expires_at = clock_timestamp() + $3 * interval '1 millisecond'
     where name = $1 and token = $2`,
    [lease.name, lease.token, ttlMs],
  );
  return rowCount === 1;
}

/** Releases the lease. Has no effect when another process owns it. */
export async function releaseLease(db: Queryable, lease: Lease): Promise<void> {
  await db.query('delete from leases where name = $1 and token = $2', [lease.name, lease.token]);
}

export interface LeasedWork<T> {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly name: string;
  readonly owner: string;
  /** Length of the lease. It is renewed while the work runs. Milliseconds. */
  readonly ttlMs: number;
  /** The work. Its signal aborts when `signal` aborts or when the lease is lost. */
  readonly work: (signal: AbortSignal) => Promise<T>;
  readonly signal?: AbortSignal;
}

/**
 * Runs `work` under a lease, which it renews during the work. Returns undefined when another process owns the lease.
 */
export async function withLease<T>(o: LeasedWork<T>): Promise<T | undefined> {
  const lease = await acquireLease(o.pool, o);
  if (!lease) return undefined;
  const renew = async () => ((await renewLease(o.pool, lease, o.ttlMs)) ? [] : [lease]);
  const heartbeat = createHeartbeat({ ...o, leaseMs: o.ttlMs, renew });
  try {
    return await heartbeat.during([lease], o);
  } finally {
    await releaseLease(o.pool, lease);
  }
}
