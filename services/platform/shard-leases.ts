import type { ProcessLease } from './lease-watch.ts';
import type { Queryable } from './postgres.ts';
import { named, type Param, param, raw, rowsOf, type Sql, sql, unnamed } from './sql.ts';

/**
 * The rows of `leases` by which processes divide shards. This is not the lease of a job (`job-lease.ts`): a process
 * holds many shards for as long as it lives, and hands them over one by one.
 *
 * Each process renews one row of its own. The rows of its shards are valid as long as that row exists. A process that
 * finds another one dead removes that row together with the dead process's other rows, which frees its shards.
 */

/** The leases of a process: the token of each, by name. */
export type HeldLeases = ReadonlyMap<string, bigint>;

/** Name prefixes of the rows of one group of shards. */
export interface LeaseNames {
  /** Prefix of all its rows. */
  readonly prefix: string;
  /** Prefix of the rows that prove that a process is alive. */
  readonly processPrefix: string;
  /** Prefix of the rows of members, which are processes that take a share. */
  readonly memberPrefix: string;
}

/** Name of the lease of a shard. */
export function shardLease(name: string, shard: number): string {
  return `${name}/shard/${shard}`;
}

export interface Renewal {
  /** False when another process took this one for dead. Other processes may then hold all its leases. */
  readonly isAlive: boolean;
  /** Names of the leases that are still held. Other processes took the rest. */
  readonly held: ReadonlySet<string>;
  /** Owners of the members. */
  readonly members: readonly string[];
  /** Leases of all other processes. */
  readonly others: readonly ProcessLease[];
  /** Time until the first lease of another process ends; null when there is none. Milliseconds. */
  readonly othersEndMs: number | null;
}

/** The lease that proves that this process is alive. */
interface OwnLease {
  readonly name: string;
  readonly token: bigint;
  readonly ttlMs: number;
}

interface Renewing {
  readonly held: HeldLeases;
  readonly names: LeaseNames;
  readonly prolongMs?: number;
}

/**
 * Renews the lease of the process and reads the leases of all processes, in one statement that writes one row. The
 * write does not wait for the disk: if a crash of the database loses it, the next renewal repeats it.
 *
 * @param o.prolongMs also extends the leases it holds by this time; undefined leaves them unchanged.
 */
export async function renewLeases(db: Queryable, process: OwnLease, o: Renewing): Promise<Renewal> {
  const { rows } = await db.query<Omit<Renewal, 'held'> & { held: string[] }>(
    named('shards-renew', renewStatement(process, o)),
  );
  const [row] = rows;
  if (!row) throw new Error('a select without a from has one row');
  return { ...row, held: new Set(row.held) };
}

const deadRows = rowsOf<ProcessLease>({
  name: ['text', ({ name }) => name],
  expires_at: ['timestamptz', ({ expiresAt }) => expiresAt],
});

/** Removes dead processes with all their leases. A process that renews its lease at this moment stays. */
export async function removeDeadProcesses(
  db: Queryable,
  o: { readonly dead: readonly ProcessLease[]; readonly names: LeaseNames },
): Promise<void> {
  if (o.dead.length === 0) return;
  const names = o.dead.map(({ name }) => name);
  await db.query(
    unnamed(sql`
with dead as (
  delete from leases p using (
    select p.name from leases p
      join ${deadRows('g', o.dead)}
        on g.name = p.name and g.expires_at = p.expires_at
     order by p.name for update of p
  ) expired
  where p.name = expired.name
  returning p.owner
)
delete from leases l using (
  select l.name from leases l join dead on dead.owner = l.owner
   where starts_with(l.name, ${o.names.prefix}) and l.name <> all(${names}::text[])
   order by l.name for update of l) as theirs
where l.name = theirs.name`),
  );
}

/**
 * Takes at most `limit` free leases. Returns their tokens by name. A lease whose process has no row is free once it has
 * expired, or if it ends later than any lease may, as after a clock was set back.
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
): Promise<HeldLeases> {
  const ttlMs = param(o.ttlMs);
  const prefix = param(o.names.processPrefix);
  const { rows } = await db.query<{ name: string; token: bigint }>(
    named(
      'shards-acquire',
      sql`
insert into leases as held (name, owner, token, expires_at)
select free.name, ${o.owner}, nextval('lease_tokens'), clock_timestamp() + ${ttlMs}::float8 * interval '1 millisecond'
  from (
    select g.name from unnest(${names}::text[]) as g (name)
      left join leases l on l.name = g.name
     where l.name is null or ${isLeft('l', ttlMs, prefix)}
     order by g.name limit ${o.limit}
  ) free
on conflict (name) do update
   set owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at
 where ${isLeft('held', ttlMs, prefix)}
returning name, token`,
    ),
  );
  return new Map(rows.map(({ name, token }) => [name, token]));
}

/** Releases leases. Leases that another process has taken stay unchanged. */
export async function releaseLeases(db: Queryable, held: HeldLeases): Promise<void> {
  if (held.size === 0) return;
  await db.query(
    unnamed(sql`
delete from leases l using (
  select l.name from leases l
    join ${heldRows('g', [...held])} on g.name = l.name and g.token = l.token
   order by l.name for update of l) as mine
where l.name = mine.name`),
  );
}

/** Removes all rows of an owner, which then starts again. */
export async function removeOwner(
  db: Queryable,
  o: { readonly owner: string; readonly prefix: string },
): Promise<void> {
  await db.query('delete from leases where owner = $1 and starts_with(name, $2)', [
    o.owner,
    o.prefix,
  ]);
}

/** SQL for whether the process that holds the lease `l` has a row; `prefix` is that of such rows. */
const hasProcess = (l: string, prefix: Param): Sql =>
  sql`exists (select from leases p where p.name = ${prefix} || ${raw(l)}.owner)`;

/** SQL for whether the lease `l`, taken for `ttlMs`, has no holder any more. */
const isLeft = (l: string, ttlMs: Param, prefix: Param): Sql => {
  const expiresAt = raw(`${l}.expires_at`);
  return sql`((${expiresAt} <= clock_timestamp() or ${expiresAt} > clock_timestamp() + 2 * ${ttlMs}::float8 * interval '1 millisecond')
    and not ${hasProcess(l, prefix)})`;
};

const heldRows = rowsOf<readonly [name: string, token: bigint]>({
  name: ['text', ([name]) => name],
  token: ['bigint', ([, token]) => token],
});

// Rows are always locked in the order of their names, so that no two statements wait for each other. The token decides
// whether a lease is still held, not the expiry.
function renewStatement(process: OwnLease, { held, names, prolongMs }: Renewing): Sql {
  const name = param(process.name);
  const prolong = param(prolongMs);
  const processPrefix = param(names.processPrefix);
  return sql`
with alive as (
  update leases set expires_at = clock_timestamp() + ${process.ttlMs}::float8 * interval '1 millisecond'
   where name = ${name} and token = ${process.token}
  returning name
), held as (
  select l.name from leases l
    join ${heldRows('g', [...held])} on g.name = l.name and g.token = l.token
   where exists (select from alive)
), prolonged as (
  update leases l set expires_at = clock_timestamp() + ${prolong}::float8 * interval '1 millisecond'
    from (
      select l.name from leases l join held on held.name = l.name
       where ${prolong}::float8 is not null order by l.name for no key update of l
    ) mine
   where l.name = mine.name
), others as (
  select p.name, p.owner, p.expires_at from leases p where starts_with(p.name, ${processPrefix}) and p.name <> ${name}
)
select set_config('synchronous_commit', 'off', true) as "isRelaxed",
       exists (select from alive) as "isAlive",
       array(select name from held) as held,
       array(select m.owner from leases m
              where starts_with(m.name, ${names.memberPrefix})
                and (${hasProcess('m', processPrefix)} or m.expires_at > clock_timestamp())) as members,
       (select coalesce(json_agg(json_build_object(
                 'name', name, 'owner', owner, 'expiresAt', expires_at::text,
                 'endsInMs', extract(epoch from expires_at - clock_timestamp())::float8 * 1000)), '[]')
          from others) as others,
       (select extract(epoch from min(l.expires_at) - clock_timestamp())::float8 * 1000 from leases l
         where starts_with(l.name, ${names.prefix}) and l.name <> ${name} and l.name <> all(${[...held.keys()]}::text[])
           and l.expires_at > clock_timestamp()) as "othersEndMs"`;
}
