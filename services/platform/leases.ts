import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Queryable } from './postgres.ts';

/** The right to do a named job until it expires by the database's clock. */
export interface Lease {
  readonly name: string;
  readonly owner: string;
  /** Grows with every acquisition of any lease: what an older holder still does can be recognised. */
  readonly token: bigint;
}

/** Another process holds the lease now, or nobody does: the work must stop. */
export class LeaseLostError extends Error {}

/**
 * Takes the lease if it is free or expired, regardless of who held it. Undefined when another holder has it;
 * asking again as the same owner does not take it either.
 *
 * A lease that ends later than any may is from before the database's clock was set back. It then ends after
 * `ttlMs`, unless its holder lives and renews it.
 */
export async function acquireLease(
  db: Queryable,
  o: { name: string; owner: string; ttlMs: number },
): Promise<Lease | undefined> {
  const { rows } = await db.query<{ token: bigint }>(
    `insert into leases as held (name, owner, token, expires_at)
     values ($1, $2, nextval('lease_tokens'), clock_timestamp() + $3 * interval '1 millisecond')
     on conflict (name) do update
       set owner = excluded.owner, token = nextval('lease_tokens'),
           expires_at = clock_timestamp() + $3 * interval '1 millisecond'
       where held.expires_at <= clock_timestamp()
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
 * Moves the expiry on, also past it while nobody took the lease: the token is what tells. False when
 * it is lost; it is never won back this way.
 */
export async function renewLease(db: Queryable, lease: Lease, ttlMs: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update leases set expires_at = clock_timestamp() + $3 * interval '1 millisecond'
     where name = $1 and token = $2`,
    [lease.name, lease.token, ttlMs],
  );
  return rowCount === 1;
}

/** Gives the lease back; nothing happens when another process has it now. */
export async function releaseLease(db: Queryable, lease: Lease): Promise<void> {
  await db.query('delete from leases where name = $1 and token = $2', [lease.name, lease.token]);
}

export interface LeasedWork<T> {
  readonly pool: pg.Pool;
  readonly name: string;
  readonly owner: string;
  /** The heartbeat comes three times in this span. Milliseconds. */
  readonly ttlMs: number;
  /** Its signal aborts when the caller's does or when the lease is lost. */
  readonly work: (lease: Lease, signal: AbortSignal) => Promise<T>;
  readonly signal?: AbortSignal;
}

/** Runs `work` under the lease and renews it during that time. Undefined when another holder has it. */
export async function withLease<T>(o: LeasedWork<T>): Promise<T | undefined> {
  const lease = await acquireLease(o.pool, o);
  if (!lease) return undefined;
  const lost = new AbortController();
  const done = new AbortController();
  const beating = keepAlive({ ...o, lease, lost, done: done.signal });
  const signals = o.signal ? [o.signal, lost.signal] : [lost.signal];
  try {
    return await o.work(lease, AbortSignal.any(signals));
  } finally {
    done.abort();
    await beating;
    await releaseLease(o.pool, lease);
  }
}

interface Heartbeat {
  readonly pool: pg.Pool;
  readonly lease: Lease;
  readonly ttlMs: number;
  readonly lost: AbortController;
  readonly done: AbortSignal;
}

async function keepAlive({ pool, lease, ttlMs, lost, done }: Heartbeat): Promise<void> {
  // Monotonic: a clock that is set back must not prolong what is held.
  let safeUntil = performance.now() + ttlMs;
  while (!done.aborted && !lost.signal.aborted) {
    await sleep(ttlMs / 3, undefined, { signal: done }).catch(() => {});
    if (done.aborted) return;
    const asked = performance.now();
    // One failed heartbeat is not a loss; there is time for another.
    const held = await renewLease(pool, lease, ttlMs).catch(() => undefined);
    if (held) safeUntil = asked + ttlMs;
    if (held === false || performance.now() >= safeUntil)
      lost.abort(new LeaseLostError(lease.name));
  }
}
