import { createHeartbeat, type Heartbeat } from './heartbeat.ts';
import { LeaseLost } from './lease-lost.ts';
import type { Logger } from './log.ts';
import type { Queryable } from './postgres.ts';
import { named, raw, rowsOf, type Sql, sql } from './sql.ts';

/** A table of jobs. One process at a time works on a row. The column `lease_token` identifies the process. */
export interface JobTable<J> {
  readonly table: string;
  /** The columns of the primary key, of type bigint. Each has a function that returns the value of a job. */
  readonly key: Readonly<Record<string, (job: J) => bigint>>;
  /** The column with the time from which a process may take the job: its next try, or the expiry of its lease. */
  readonly dueAt: string;
  readonly leaseMs: number;
  /** The sequence of the tokens. */
  readonly tokens: string;
  /** SQL: the job has not ended. */
  readonly isOpen: Sql;
  /** SQL that selects the keys of due jobs `for update skip locked`. */
  readonly due: (limit: number) => Sql;
  /** Further assignments to the `job` when a process takes it. */
  readonly onClaim?: Sql;
  /** The columns of the `job` that a claim returns, besides the token. */
  readonly returning: Sql;
}

export interface JobWrite {
  readonly name: string;
  /** The assignments. */
  readonly set: Sql;
  /** A further condition. */
  readonly and?: Sql;
}

export interface JobLease<J> {
  /** The assignment that renews a lease. */
  readonly renewal: Sql;
  /** The condition that this process owns the job. */
  isOwned(job: J): Sql;
  /** Takes up to `limit` due jobs, each with a new token. */
  claim<R>(db: Queryable, limit: number): Promise<(R & { readonly token: bigint })[]>;
  /**
   * Renews leases, including expired ones. Skips jobs that another statement is writing at this moment.
   *
   * @returns the jobs that this process no longer owns.
   */
  renew(db: Queryable, jobs: readonly J[]): Promise<J[]>;
  /** Renews the leases of this process for as long as it works on the jobs. */
  heartbeat(db: Queryable, logger: Logger): Heartbeat<J>;
  /** Changes a job. Returns false when this process no longer owns it, or the further condition is false. */
  tryWrite(db: Queryable, job: J, write: JobWrite): Promise<boolean>;
  /** Changes a job. @throws LeaseLost when this process no longer owns it. */
  write(db: Queryable, job: J, write: JobWrite): Promise<void>;
}

/**
 * Leases the jobs of a table. A lease expires by the clock of the database unless its process renews it. The job is then
 * due, and another process takes it. The token protects a job; the time does not. Each write names the token. So a slow
 * process continues if no other process took its job, and otherwise changes nothing.
 *
 * A process owns a job until its work on the job ends. A process owns shards for as long as it lives: see `shards.ts`.
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
