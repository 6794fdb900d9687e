import type pg from 'pg';
import type { Queryable } from '../postgres/postgres.ts';
import { named, raw, rowsOf, type Sql, sql } from '../postgres/sql.ts';
import { startLoop, type Worker } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';

/** Another process has taken the lease of this process. So this process must stop writing under the lease. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';

  constructor(what: string) {
    super(`${what}: another process has the lease`);
  }
}

interface HeartbeatOptions<L> {
  /** Name of the heartbeat in logs. */
  readonly name: string;
  readonly logger: Logger;
  readonly leaseMs: number;
  /** Renews leases. Returns those that are lost. */
  readonly renew: (leases: readonly L[]) => Promise<readonly L[]>;
}

interface Heartbeat<L> {
  /**
   * Renews the leases while the work runs. The signal of the work aborts when `signal` aborts. It aborts with LeaseLost
   * when one of the leases is lost.
   */
  during<T>(
    leases: readonly L[],
    o: { readonly signal?: AbortSignal; readonly work: (signal: AbortSignal) => Promise<T> },
  ): Promise<T>;
}

/** How often a lease is renewed before it would expire, so that one failed renewal does not lose it. */
const RENEWALS_PER_LEASE = 4;
const heartbeatMs = (leaseMs: number) => leaseMs / RENEWALS_PER_LEASE;

/** Creates a heartbeat. It renews all leases in use with one statement, and does nothing while no lease is in use. */
export function createHeartbeat<L>({
  name,
  logger,
  leaseMs,
  renew,
}: HeartbeatOptions<L>): Heartbeat<L> {
  const owned = new Map<L, AbortController>();
  let loop: Worker | undefined;

  async function renewAll(): Promise<'idle'> {
    const lost = await renew([...owned.keys()]);
    for (const lease of lost) owned.get(lease)?.abort(new LeaseLost(name));
    return 'idle';
  }

  return {
    async during(leases, { signal, work }) {
      const lost = new AbortController();
      for (const lease of leases) owned.set(lease, lost);
      const everyMs = heartbeatMs(leaseMs);
      loop ??= startLoop({ name, logger, idleMs: everyMs, delayMs: everyMs, step: renewAll });
      try {
        return await work(signal ? AbortSignal.any([signal, lost.signal]) : lost.signal);
      } finally {
        for (const lease of leases) owned.delete(lease);
        if (owned.size === 0) {
          const last = loop;
          loop = undefined;
          await last?.stop();
        }
      }
    },
  };
}

/**
 * The right of a process to do one named piece of work. It lasts until the lease expires by the clock of the database.
 */
interface Lease {
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

interface LeasedWork<T> {
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

/** A table of jobs. Only one process at a time works on a row. The column `lease_token` has the token of its lease. */
interface JobTable<J> {
  readonly table: string;
  /** The columns of the primary key, of type bigint. Each comes with a function that returns its value for a job. */
  readonly key: Readonly<Record<string, (job: J) => bigint>>;
  /**
   * The column with the time from which a process may take the job. This is the time of the next try, or of the expiry
   * of the lease.
   */
  readonly dueAt: string;
  readonly leaseMs: number;
  /** Name of the sequence from which tokens are drawn. */
  readonly tokens: string;
  /** SQL condition: the job has not ended. */
  readonly isOpen: Sql;
  /** SQL that selects the keys of due jobs with `for update skip locked`. */
  readonly due: (limit: number) => Sql;
  /** SQL of additional assignments to the `job` when a process takes it. */
  readonly onClaim?: Sql;
  /** SQL of the columns of the `job` that a claim returns in addition to the token. */
  readonly returning: Sql;
}

interface JobWrite {
  readonly name: string;
  /** SQL of the assignments. */
  readonly set: Sql;
  /** SQL of an additional condition. */
  readonly and?: Sql;
}

interface JobLease<J> {
  /** SQL of the time at which a new lease expires. */
  readonly expiry: Sql;
  /**
   * SQL of the assignment that renews a lease in a statement that also writes other columns. A lease that is newer than a
   * heartbeat stays as it is: then no indexed column changes, and PostgreSQL writes no index entries.
   */
  readonly renewal: Sql;
  /** SQL condition: this process still owns the job. */
  isOwned(job: J): Sql;
  /** Takes up to `limit` due jobs. Each gets a new token. */
  claim<R>(db: Queryable, limit: number): Promise<(R & { readonly token: bigint })[]>;
  /**
   * Renews leases, also expired ones. Skips jobs whose rows another statement has locked.
   *
   * @returns the jobs that this process no longer owns.
   */
  renew(db: Queryable, jobs: readonly J[]): Promise<J[]>;
  /** Renews the leases of jobs as long as this process works on them. */
  heartbeat(db: Queryable, logger: Logger): Heartbeat<J>;
  /**
   * Changes a job. Returns false when this process no longer owns the job, or when the additional condition is false.
   */
  tryWrite(db: Queryable, job: J, write: JobWrite): Promise<boolean>;
  /** Changes a job. @throws LeaseLost when this process no longer owns it. */
  write(db: Queryable, job: J, write: JobWrite): Promise<void>;
}

/**
 * Creates leases for the jobs of a table.
 *
 * A lease expires by the clock of the database unless its process renews it. The job is then due, and another process
 * takes it. Not the time but the token protects the job, because each write requires it. So a slow process may continue
 * when no other process took its job. Otherwise its writes change nothing.
 *
 * A process owns a job until its work on the job ends. It owns shards as long as it lives: see `shards.ts`.
 */
export function createJobLease<J extends { readonly token: bigint }>(t: JobTable<J>): JobLease<J> {
  const table = raw(t.table);
  const columns = Object.keys(t.key);
  const keyOf = (alias: string) => raw(`(${columns.map((one) => `${alias}.${one}`).join(', ')})`);
  const [job, input] = [keyOf('job'), keyOf('input')];
  const inputRows = rowsOf<J>({
    ...Object.fromEntries(Object.entries(t.key).map(([one, of]) => [one, ['bigint', of] as const])),
    token: ['bigint', ({ token }) => token],
  });
  const expiry = raw(`clock_timestamp() + interval '${t.leaseMs} milliseconds'`);
  const dueAt = raw(t.dueAt);
  const newLease = sql`${dueAt} = ${expiry}`;
  const newMs = t.leaseMs - heartbeatMs(t.leaseMs);
  const oldest = raw(`clock_timestamp() + interval '${newMs} milliseconds'`);
  const renewal = sql`
    ${dueAt} = case when ${dueAt} between ${oldest} and ${expiry} then ${dueAt} else ${expiry} end`;

  const isOwned = (of: J): Sql =>
    Object.entries(t.key).reduce(
      (condition, [column, value]) => sql`${condition} and ${raw(column)} = ${value(of)}`,
      sql`${t.isOpen} and lease_token = ${of.token}`,
    );

  const tryWrite = async (db: Queryable, of: J, o: JobWrite): Promise<boolean> => {
    const condition = o.and ? sql`${isOwned(of)} and ${o.and}` : isOwned(of);
    const statement = sql`update ${table} set ${o.set} where ${condition}`;
    return (await db.query(named(o.name, statement))).rowCount === 1;
  };

  const renew = async (db: Queryable, jobs: readonly J[]): Promise<J[]> => {
    const statement = sql`
with input as (
  select * from ${inputRows('input', jobs)}
), owned as (
  select job.* from ${table} job join input on ${job} = ${input}
   where job.lease_token = input.token and ${t.isOpen}
   order by ${job} for no key update of job skip locked
), renewed as (
  update ${table} job set ${newLease} from owned where ${job} = ${keyOf('owned')}
)
select token from input where not exists (
  select from ${table} job
   where ${job} = ${input} and job.lease_token = input.token and ${t.isOpen})`;
    const { rows } = await db.query<{ token: bigint }>(named(`${t.table}-renew`, statement));
    const lost = new Set(rows.map(({ token }) => token));
    return jobs.filter(({ token }) => lost.has(token));
  };

  return {
    expiry,
    renewal,
    isOwned,
    renew,
    heartbeat: (db, logger) =>
      createHeartbeat({
        name: `leases of ${t.table}`,
        logger,
        leaseMs: t.leaseMs,
        renew: (jobs) => renew(db, jobs),
      }),
    async claim(db, limit) {
      const statement = sql`
update ${table} job
   set ${t.onClaim ? sql`${t.onClaim}, ` : raw('')}lease_token = nextval(${raw(`'${t.tokens}'`)}), ${newLease}
  from (${t.due(limit)}) due
 where ${job} = ${keyOf('due')}
returning ${t.returning}, job.lease_token as token`;
      return (await db.query(named(`${t.table}-claim`, statement))).rows;
    },
    tryWrite,
    async write(db, of, o) {
      if (!(await tryWrite(db, of, o))) throw new LeaseLost(t.table);
    },
  };
}
