import type { ProcessLease } from './lease-watch.ts';
import type { Queryable } from './postgres.ts';

/**
 * The rows of `leases` by which processes divide shards. Each process renews one row of its own. The rows of its shards
 * are valid as long as that row exists. A process that finds another one dead removes that row together with the dead
 * process's other rows, which frees its shards.
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

/**
 * Renews the lease of the process and reads the leases of all processes, in one statement that writes one row. The
 * write does not wait for the disk: if a crash of the database loses it, the next renewal repeats it.
 *
 * @param o.prolongMs also extends the leases it holds by this time; undefined leaves them unchanged.
 */
export async function renewLeases(
  db: Queryable,
  process: { readonly name: string; readonly token: bigint; readonly ttlMs: number },
  o: { readonly held: HeldLeases; readonly names: LeaseNames; readonly prolongMs?: number },
): Promise<Renewal> {
  const { rows } = await db.query<Omit<Renewal, 'held'> & { held: string[] }>({
    name: 'shards-renew',
    text: RENEW,
    values: [
      ...[process.name, process.token, process.ttlMs],
      ...[[...o.held.keys()], [...o.held.values()], o.prolongMs ?? null],
      ...[o.names.prefix, o.names.processPrefix, o.names.memberPrefix],
    ],
  });
  const [row] = rows;
  if (!row) throw new Error('a select without a from has one row');
  return { ...row, held: new Set(row.held) };
}

/** Removes dead processes with all their leases. A process that renews its lease at this moment stays. */
export async function removeDeadProcesses(
  db: Queryable,
  o: { readonly dead: readonly ProcessLease[]; readonly names: LeaseNames },
): Promise<void> {
  if (o.dead.length === 0) return;
  const leases = [o.dead.map(({ name }) => name), o.dead.map(({ expiresAt }) => expiresAt)];
  await db.query(REMOVE_DEAD, [...leases, o.names.prefix]);
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
  const { rows } = await db.query<{ name: string; token: bigint }>({
    name: 'shards-acquire',
    text: ACQUIRE,
    values: [names, o.owner, o.ttlMs, o.limit, o.names.processPrefix],
  });
  return new Map(rows.map(({ name, token }) => [name, token]));
}

/** Releases leases. Leases that another process has taken stay unchanged. */
export async function releaseLeases(db: Queryable, held: HeldLeases): Promise<void> {
  if (held.size === 0) return;
  await db.query(RELEASE, [[...held.keys()], [...held.values()]]);
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
const hasProcess = (l: string, prefix: string): string =>
  `exists (select from leases p where p.name = ${prefix} || ${l}.owner)`;

/** SQL for whether the lease `l`, taken for `ttl` milliseconds, has no holder any more. */
const isLeft = (l: string, ttl: string): string =>
  `((${l}.expires_at <= clock_timestamp() or ${l}.expires_at > clock_timestamp() + 2 * ${ttl}::float8 * interval '1 millisecond')
    and not ${hasProcess(l, '$5')})`;

// Rows are always locked in the order of their names, so that no two statements wait for each other. The token decides
// whether a lease is still held, not the expiry.
const RENEW = `
with alive as (
  update leases set expires_at = clock_timestamp() + $3::float8 * interval '1 millisecond'
   where name = $1 and token = $2
  returning name
), held as (
  select l.name from leases l
    join unnest($4::text[], $5::bigint[]) as g (name, token) on g.name = l.name and g.token = l.token
   where exists (select from alive)
), prolonged as (
  update leases l set expires_at = clock_timestamp() + $6::float8 * interval '1 millisecond'
    from (
      select l.name from leases l join held on held.name = l.name
       where $6::float8 is not null order by l.name for no key update of l
    ) mine
   where l.name = mine.name
), others as (
  select p.name, p.owner, p.expires_at from leases p where starts_with(p.name, $8) and p.name <> $1
)
select set_config('synchronous_commit', 'off', true) as "isRelaxed",
       exists (select from alive) as "isAlive",
       array(select name from held) as held,
       array(select m.owner from leases m
              where starts_with(m.name, $9) and (${hasProcess('m', '$8')} or m.expires_at > clock_timestamp())) as members,
       (select coalesce(json_agg(json_build_object(
                 'name', name, 'owner', owner, 'expiresAt', expires_at::text,
                 'endsInMs', extract(epoch from expires_at - clock_timestamp())::float8 * 1000)), '[]')
          from others) as others,
       (select extract(epoch from min(l.expires_at) - clock_timestamp())::float8 * 1000 from leases l
         where starts_with(l.name, $7) and l.name <> $1 and l.name <> all($4::text[])
           and l.expires_at > clock_timestamp()) as "othersEndMs"`;

const REMOVE_DEAD = `
with dead as (
  delete from leases p using (
    select p.name from leases p
      join unnest($1::text[], $2::timestamptz[]) as g (name, expires_at)
        on g.name = p.name and g.expires_at = p.expires_at
     order by p.name for update of p
  ) expired
  where p.name = expired.name
  returning p.owner
)
delete from leases l using (
  select l.name from leases l join dead on dead.owner = l.owner
   where starts_with(l.name, $3) and l.name <> all($1::text[])
   order by l.name for update of l) as theirs
where l.name = theirs.name`;

const ACQUIRE = `
insert into leases as held (name, owner, token, expires_at)
select free.name, $2, nextval('lease_tokens'), clock_timestamp() + $3 * interval '1 millisecond'
  from (
    select g.name from unnest($1::text[]) as g (name)
      left join leases l on l.name = g.name
     where l.name is null or ${isLeft('l', '$3')}
     order by g.name limit $4
  ) free
on conflict (name) do update
   set owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at
 where ${isLeft('held', '$3')}
returning name, token`;

const RELEASE = `
delete from leases l using (
  select l.name from leases l
    join unnest($1::text[], $2::bigint[]) as g (name, token) on g.name = l.name and g.token = l.token
   order by l.name for update of l) as mine
where l.name = mine.name`;
