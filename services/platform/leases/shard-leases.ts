import type { Queryable } from '../postgres/postgres.ts';
import { named, type Param, param, raw, rowsOf, type Sql, sql, unnamed } from '../postgres/sql.ts';
import type { ProcessLease } from './lease-watch.ts';

/**
 * The rows of `leases` by which processes divide shards. They differ from the lease of a job (`leases.ts`): a
 * process owns many shards as long as it lives, and hands them over one by one.
 *
 * Each process renews one row of its own. The rows of its shards are valid as long as that row exists. When a process
 * finds that another one is dead, it removes the row of the dead process and the rows of its shards. Then these shards
 * are free.
 */

/** The leases of a process: for each name its token. */
export type LeaseTokens = ReadonlyMap<string, bigint>;

/** Prefixes of the names of the rows that belong to one group of shards. */
export interface LeaseNames {
  /** Prefix of all rows of the group. */
  readonly prefix: string;
  /** Prefix of the rows that prove that a process is alive. */
  readonly processPrefix: string;
  /** Prefix of the rows of members. A member is a process that takes a share of the shards. */
  readonly memberPrefix: string;
}

/** The name of the lease of a shard. */
export function shardLease(name: string, shard: number): string {
  return `${name}/shard/${shard}`;
}

export interface Renewal {
  /**
   * False when another process removed the row of this process, because it looked dead. Other processes may then own
   * its leases.
   */
  readonly isAlive: boolean;
  /** Names of the leases that this process still owns. Other processes took the others. */
  readonly owned: ReadonlySet<string>;
  /** Names of the processes that are members. */
  readonly members: readonly string[];
  /** The process rows of all other processes. */
  readonly otherProcesses: readonly ProcessLease[];
  /** Time until the first process row of another process expires; null when there is none. Milliseconds. */
  readonly nextExpiryMs: number | null;
}

/** The row that proves that this process is alive. */
interface OwnLease {
  readonly name: string;
  readonly token: bigint;
  readonly ttlMs: number;
}

interface RenewOptions {
  readonly owned: LeaseTokens;
  readonly names: LeaseNames;
}

/**
 * Renews the row of this process and reads the rows of all processes, in one statement that writes one row. The commit
 * does not wait for the disk. If a crash of the database loses the renewal, the next one repeats it.
 */
export async function renewLeases(
  db: Queryable,
  process: OwnLease,
  o: RenewOptions,
): Promise<Renewal> {
  const { rows } = await db.query<Omit<Renewal, 'owned'> & { owned: string[] }>(
    named('shards-renew', renewStatement(process, o)),
  );
  const [row] = rows;
  if (!row) throw new Error('a select without a from has one row');
  return { ...row, owned: new Set(row.owned) };
}

const deadRows = rowsOf<ProcessLease>({
  name: ['text', ({ name }) => name],
  expires_at: ['timestamptz', ({ expiresAt }) => expiresAt],
});

/** Removes dead processes with all their leases. Does not remove a process that renews its row at this moment. */
export async function removeDeadProcesses(
  db: Queryable,
  o: { readonly dead: readonly ProcessLease[]; readonly names: LeaseNames },
): Promise<void> {
  if (o.dead.length === 0) return;
  const names = o.dead.map(({ name }) => name);
  await db.query(
    unnamed(sql`
with dead as (
  delete from leases process using (
    select process.name from leases process
      join ${deadRows('input', o.dead)}
        on input.name = process.name and input.expires_at = process.expires_at
     order by process.name for update of process
  ) expired
  where process.name = expired.name
  returning process.owner
)
delete from leases lease using (
  select lease.name from leases lease join dead on dead.owner = lease.owner
   where starts_with(lease.name, ${o.names.prefix}) and lease.name <> all(${names}::text[])
   order by lease.name for update of lease) as of_dead
where lease.name = of_dead.name`),
  );
}

/**
 * Takes at most `limit` free leases. Returns their tokens by name. A lease whose owner has no process row is free when
 * it has expired. It is also free when its expiry is too far in the future, which happens after a clock was set back.
 */
export async function acquireLeases(
  db: Queryable,
  names: readonly string[],
  o: {
    readonly owner: string;
    readonly ttlMs: number;
    readonly limit: number;
    readonly names: Pick<LeaseNames, 'processPrefix'>;
  },
): Promise<LeaseTokens> {
  const ttlMs = param(o.ttlMs);
  const prefix = param(o.names.processPrefix);
  const { rows } = await db.query<{ name: string; token: bigint }>(
    named(
      'shards-acquire',
      sql`
insert into leases as current (name, owner, token, expires_at)
select free.name, ${o.owner}, nextval('lease_tokens'), clock_timestamp() + ${ttlMs}::float8 * interval '1 millisecond'
  from (
    select input.name from unnest(${names}::text[]) as input (name)
      left join leases lease on lease.name = input.name
     where lease.name is null or ${isFree('lease', ttlMs, prefix)}
     order by input.name limit ${o.limit}
  ) free
on conflict (name) do update
   set owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at
 where ${isFree('current', ttlMs, prefix)}
returning name, token`,
    ),
  );
  return new Map(rows.map(({ name, token }) => [name, token]));
}

/** Releases leases, except those that another process has taken in the meantime. */
export async function releaseLeases(db: Queryable, owned: LeaseTokens): Promise<void> {
  if (owned.size === 0) return;
  await db.query(
    unnamed(sql`
delete from leases lease using (
  select lease.name from leases lease
    join ${tokenRows('input', [...owned])} on input.name = lease.name and input.token = lease.token
   order by lease.name for update of lease) as owned
where lease.name = owned.name`),
  );
}

/** Removes all rows of an owner, before it starts again. */
export async function removeOwner(
  db: Queryable,
  o: { readonly owner: string; readonly prefix: string },
): Promise<void> {
  await db.query('delete from leases where owner = $1 and starts_with(name, $2)', [
    o.owner,
    o.prefix,
  ]);
}

/** SQL condition: the owner of a lease has a process row. `prefix` is that of process rows. */
const hasProcess = (lease: string, prefix: Param): Sql =>
  sql`exists (select from leases process where process.name = ${prefix} || ${raw(lease)}.owner)`;

/** SQL condition: another process may take a lease. `ttlMs` is the length of such leases. */
const isFree = (lease: string, ttlMs: Param, prefix: Param): Sql => {
  const expiresAt = raw(`${lease}.expires_at`);
  return sql`((${expiresAt} <= clock_timestamp() or ${expiresAt} > clock_timestamp() + 2 * ${ttlMs}::float8 * interval '1 millisecond')
    and not ${hasProcess(lease, prefix)})`;
};

const tokenRows = rowsOf<readonly [name: string, token: bigint]>({
  name: ['text', ([name]) => name],
  token: ['bigint', ([, token]) => token],
});

// Every statement locks rows in the order of their names, so that no two statements wait for each other. The token says
// whether a process still owns a lease. The expiry does not.
function renewStatement(process: OwnLease, { owned, names }: RenewOptions): Sql {
  const name = param(process.name);
  const processPrefix = param(names.processPrefix);
  return sql`
with alive as (
  update leases set expires_at = clock_timestamp() + ${process.ttlMs}::float8 * interval '1 millisecond'
   where name = ${name} and token = ${process.token}
  returning name
), owned as (
  select lease.name from leases lease
    join ${tokenRows('input', [...owned])} on input.name = lease.name and input.token = lease.token
   where exists (select from alive)
), others as (
  select process.name, process.owner, process.expires_at from leases process
   where starts_with(process.name, ${processPrefix}) and process.name <> ${name}
)
select set_config('synchronous_commit', 'off', true) as "isRelaxed",
       exists (select from alive) as "isAlive",
       array(select name from owned) as owned,
       array(select member.owner from leases member
              where starts_with(member.name, ${names.memberPrefix}) and ${hasProcess('member', processPrefix)}) as members,
       (select coalesce(json_agg(json_build_object(
                 'name', name, 'owner', owner, 'expiresAt', expires_at::text,
                 'endsInMs', extract(epoch from expires_at - clock_timestamp())::float8 * 1000)), '[]')
          from others) as "otherProcesses",
       (select extract(epoch from min(expires_at) - clock_timestamp())::float8 * 1000
          from others where expires_at > clock_timestamp()) as "nextExpiryMs"`;
}
