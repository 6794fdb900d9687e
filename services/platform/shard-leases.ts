import type { Queryable } from './postgres.ts';

/**
 * The rows of `leases` by which processes divide shards. Each process has one row that it renews all the
 * time. The rows of its shards last much longer and count only as long as that row does: who finds the row of
 * a process expired removes it together with the process's other rows, and they are free.
 */

/** Leases that a process holds: the token of each, by name. */
export type HeldLeases = ReadonlyMap<string, bigint>;

/** How the rows of one division are named. */
export interface LeaseNames {
  /** Of all its rows. */
  readonly prefix: string;
  /** Of the rows that say that a process is alive. */
  readonly processPrefix: string;
  /** Of the rows that say that a process takes a share. */
  readonly memberPrefix: string;
}

export interface Renewal {
  /** False when this process was taken for dead: all it held may be another's. */
  readonly isAlive: boolean;
  /** Names of those that are still ours; the others were taken by somebody else. */
  readonly held: ReadonlySet<string>;
  /** How many processes take a share. */
  readonly members: number;
  /** How many others are dead and not yet removed. */
  readonly dead: number;
  /** When the first lease of another ends, from now; null when there is none. Milliseconds. */
  readonly othersEndMs: number | null;
}

/**
 * Moves the expiry of the process on, and looks at everybody's leases: one statement that writes one row.
 * It does not wait for the disk: what a crash of the database loses of it is renewed a moment later.
 *
 * @param o.prolongMs so far the expiry of what it holds is moved on too; undefined leaves it.
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

/**
 * Removes processes whose lease has expired, with everything that they held. One that renews its lease at
 * this moment stays. A lease that ends later than any may is from before the clock was set back.
 */
export async function removeDeadProcesses(
  db: Queryable,
  o: { readonly owner: string; readonly ttlMs: number; readonly names: LeaseNames },
): Promise<void> {
  await db.query(REMOVE_DEAD, [o.names.processPrefix, o.names.prefix, o.owner, o.ttlMs]);
}

/** Takes at most `limit` of those that are free or expired: their tokens, by name. */
export async function acquireLeases(
  db: Queryable,
  names: readonly string[],
  o: { readonly owner: string; readonly ttlMs: number; readonly limit: number },
): Promise<HeldLeases> {
  const { rows } = await db.query<{ name: string; token: bigint }>({
    name: 'shards-acquire',
    text: ACQUIRE,
    values: [names, o.owner, o.ttlMs, o.limit],
  });
  return new Map(rows.map(({ name, token }) => [name, token]));
}

/** Gives leases back; those that another process has taken stay as they are. */
export async function releaseLeases(db: Queryable, held: HeldLeases): Promise<void> {
  if (held.size === 0) return;
  await db.query(RELEASE, [[...held.keys()], [...held.values()]]);
}

/** Removes all rows of an owner: it begins again. */
export async function removeOwner(
  db: Queryable,
  o: { readonly owner: string; readonly prefix: string },
): Promise<void> {
  await db.query('delete from leases where owner = $1 and starts_with(name, $2)', [
    o.owner,
    o.prefix,
  ]);
}

/** Whether the lease of a process `p`, of `ttl` milliseconds, has expired. */
const isDead = (p: string, ttl: string): string =>
  `(${p}.expires_at <= clock_timestamp() or ${p}.expires_at > clock_timestamp() + 2 * ${ttl}::float8 * interval '1 millisecond')`;

// Rows are locked in the order of their names, as everywhere: no two statements wait for each other.
// Whether a lease is still ours its token says, not its expiry.
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
  select p.owner, p.expires_at, ${isDead('p', '$3')} as is_dead
    from leases p where starts_with(p.name, $8) and p.name <> $1
)
select set_config('synchronous_commit', 'off', true) as "isRelaxed",
       exists (select from alive) as "isAlive",
       array(select name from held) as held,
       (select count(*)::int from leases m
         where starts_with(m.name, $9) and m.expires_at > clock_timestamp()
           and not exists (select from others where others.owner = m.owner and is_dead)) as members,
       (select count(*)::int from others where is_dead) as dead,
       (select extract(epoch from min(l.expires_at) - clock_timestamp())::float8 * 1000 from leases l
         where starts_with(l.name, $7) and l.name <> $1 and l.name <> all($4::text[])
           and l.expires_at > clock_timestamp()) as "othersEndMs"`;

const REMOVE_DEAD = `
with dead as (
  delete from leases p using (
    select p.name from leases p
     where starts_with(p.name, $1) and p.owner <> $3 and ${isDead('p', '$4')}
     order by p.name for update
  ) expired
  where p.name = expired.name
  returning p.owner
)
delete from leases l using (
  select l.name from leases l join dead on dead.owner = l.owner
   where starts_with(l.name, $2) and not starts_with(l.name, $1)
   order by l.name for update of l) as theirs
where l.name = theirs.name`;

const ACQUIRE = `
insert into leases as held (name, owner, token, expires_at)
select free.name, $2, nextval('lease_tokens'), clock_timestamp() + $3 * interval '1 millisecond'
  from (
    select g.name from unnest($1::text[]) as g (name)
      left join leases l on l.name = g.name
     where l.name is null or l.expires_at <= clock_timestamp()
     order by g.name limit $4
  ) free
on conflict (name) do update
   set owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at
 where held.expires_at <= clock_timestamp()
returning name, token`;

const RELEASE = `
delete from leases l using (
  select l.name from leases l
    join unnest($1::text[], $2::bigint[]) as g (name, token) on g.name = l.name and g.token = l.token
   order by l.name for update of l) as mine
where l.name = mine.name`;
