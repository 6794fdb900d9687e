import { createHeartbeat, type Heartbeat } from './heartbeat.ts';
import { LeaseLost } from './lease-lost.ts';
import type { Logger } from './log.ts';
import type { Queryable } from './postgres.ts';
import { named, raw, rowsOf, type Sql, sql } from './sql.ts';

/** A table of jobs: rows that one process at a time works on. Its column `lease_token` names the process. */
export interface JobTable<J> {
  readonly table: string;
  /** The columns of the primary key, of type bigint, with their values of a job. */
  readonly key: Readonly<Record<string, (job: J) => bigint>>;
  /** The column with the time at which a job may be taken: its next try, or the end of its lease. */
  readonly dueAt: string;
  readonly leaseMs: number;
  /** The sequence of the tokens. */
  readonly tokens: string;
  /** The job has not ended. */
  readonly isOpen: Sql;
  /** Selects the keys of due jobs `for update skip locked`. */
  readonly due: (limit: number) => Sql;
  /** Further assignments to a `job` that is taken. */
  readonly onClaim?: Sql;
  /** What a claim reads of a `job`, besides its token. */
  readonly returning: Sql;
}

export interface JobWrite {
  readonly name: string;
  /** Assignments. */
  readonly set: Sql;
  /** A further condition. */
  readonly and?: Sql;
}

export interface JobLease<J> {
  /** The assignment that renews a lease. */
  readonly renewal: Sql;
  /** The condition that this process holds the job. */
  isHeld(job: J): Sql;
  /** Takes up to `limit` due jobs, each with a new token. */
  claim<R>(db: Queryable, limit: number): Promise<(R & { readonly token: bigint })[]>;
  /**
   * Renews leases, also those that have ended, except of jobs that another statement is just writing.
   *
   * @returns the jobs that this process does not hold any more.
   */
  renew(db: Queryable, jobs: readonly J[]): Promise<J[]>;
  /** Renews the leases of this process for as long as it works on the jobs. */
  heartbeat(db: Queryable, logger: Logger): Heartbeat<J>;
  /** Changes a job. False when this process does not hold it any more, or the further condition is false. */
  tryWrite(db: Queryable, job: J, write: JobWrite): Promise<boolean>;
  /** Changes a job. @throws LeaseLost when this process does not hold it any more. */
  write(db: Queryable, job: J, write: JobWrite): Promise<void>;
}

/**
 * The lease of the jobs of a table. A lease ends by the clock of the database unless its process renews it; then the
 * job is due, and another process takes it. Only the token protects a job, not the time: each write names the token, so
 * a process that was merely slow goes on when nobody took its job, and otherwise changes nothing.
 *
 * A job belongs to one process for as long as its work takes. What a process holds for as long as it lives are shards,
 * see `shards.ts`.
 */
export function createJobLease<J extends { readonly token: bigint }>(t: JobTable<J>): JobLease<J> {
  const table = raw(t.table);
  const columns = Object.keys(t.key);
  const keyOf = (alias: string) => raw(`(${columns.map((one) => `${alias}.${one}`).join(', ')})`);
  const [job, given] = [keyOf('job'), keyOf('given')];
  const givenRows = rowsOf<J>({
    ...Object.fromEntries(Object.entries(t.key).map(([one, of]) => [one, ['bigint', of] as const])),
    token: ['bigint', ({ token }) => token],
  });
  const renewal = raw(`${t.dueAt} = clock_timestamp() + interval '${t.leaseMs} milliseconds'`);

  const isHeld = (of: J): Sql =>
    Object.entries(t.key).reduce(
      (held, [column, value]) => sql`${held} and ${raw(column)} = ${value(of)}`,
      sql`${t.isOpen} and lease_token = ${of.token}`,
    );

  const tryWrite = async (db: Queryable, of: J, o: JobWrite): Promise<boolean> => {
    const condition = o.and ? sql`${isHeld(of)} and ${o.and}` : isHeld(of);
    const statement = sql`update ${table} set ${o.set} where ${condition}`;
    return (await db.query(named(o.name, statement))).rowCount === 1;
  };

  const renew = async (db: Queryable, jobs: readonly J[]): Promise<J[]> => {
    const statement = sql`
with given as (
  select * from ${givenRows('given', jobs)}
), held as (
  select job.* from ${table} job join given on ${job} = ${given}
   where job.lease_token = given.token and ${t.isOpen}
   order by ${job} for no key update of job skip locked
), renewed as (
  update ${table} job set ${renewal} from held where ${job} = ${keyOf('held')}
)
select token from given where not exists (
  select from ${table} job
   where ${job} = ${given} and job.lease_token = given.token and ${t.isOpen})`;
    const { rows } = await db.query<{ token: bigint }>(named(`${t.table}-renew`, statement));
    const lost = new Set(rows.map(({ token }) => token));
    return jobs.filter(({ token }) => lost.has(token));
  };

  return {
    renewal,
    isHeld,
    renew,
    heartbeat: (db, logger) =>
      createHeartbeat({
        ...{ name: `leases of ${t.table}`, logger, leaseMs: t.leaseMs },
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
