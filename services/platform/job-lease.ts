import { createHeartbeat, type Heartbeat } from './heartbeat.ts';
import { LeaseLost } from './lease-lost.ts';
import type { Logger } from './log.ts';
import type { Queryable } from './postgres.ts';
import { named, raw, rowsOf, type Sql, sql } from './sql.ts';

/** A table of jobs. Only one process at a time works on a row. The column `lease_token` has the token of its lease. */
export interface JobTable<J> {
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

export interface JobWrite {
  readonly name: string;
  /** SQL of the assignments. */
  readonly set: Sql;
  /** SQL of an additional condition. */
  readonly and?: Sql;
}

export interface JobLease<J> {
  /** SQL of the assignment that renews a lease. */
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
  const renewal = raw(`${t.dueAt} = clock_timestamp() + interval '${t.leaseMs} milliseconds'`);

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
  update ${table} job set ${renewal} from owned where ${job} = ${keyOf('owned')}
)
select token from input where not exists (
  select from ${table} job
   where ${job} = ${input} and job.lease_token = input.token and ${t.isOpen})`;
    const { rows } = await db.query<{ token: bigint }>(named(`${t.table}-renew`, statement));
    const lost = new Set(rows.map(({ token }) => token));
    return jobs.filter(({ token }) => lost.has(token));
  };

  return {
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
   set ${t.onClaim ? sql`${t.onClaim}, ` : raw('')}lease_token = nextval(${raw(`'${t.tokens}'`)}), ${renewal}
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
