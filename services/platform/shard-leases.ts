import type { Queryable } from './postgres.ts';

/** Leases that a process holds: the token of each, by name. */
export type HeldLeases = ReadonlyMap<string, bigint>;

export interface Renewal {
  /** Names of those that are still ours; the others were taken by somebody else. */
  readonly renewed: ReadonlySet<string>;
  /** How many members are alive. */
  readonly members: number;
  /** When the first lease of another ends, from now; null when there is none. Milliseconds. */
  readonly othersEndMs: number | null;
}

/**
 * Moves the expiry of leases on, and looks at those of the others: one statement, whatever is held. A
 * lease past its expiry that nobody took is still ours.
 *
 * @param o.prefix of the names of all leases that are divided, members included.
 */
export async function renewLeases(
  db: Queryable,
  held: HeldLeases,
  o: { readonly ttlMs: number; readonly memberPrefix: string; readonly prefix: string },
): Promise<Renewal> {
  const { rows } = await db.query<Omit<Renewal, 'renewed'> & { renewed: string[] }>({
    name: 'shards-renew',
    text: RENEW,
    values: [[...held.keys()], [...held.values()], o.ttlMs, o.memberPrefix, o.prefix],
  });
  return {
    renewed: new Set(rows[0]?.renewed),
    members: rows[0]?.members ?? 0,
    othersEndMs: rows[0]?.othersEndMs ?? null,
  };
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

/** Gives leases back; those that are another's by now stay as they are. */
export async function releaseLeases(db: Queryable, held: HeldLeases): Promise<void> {
  if (held.size === 0) return;
  await db.query(RELEASE, [[...held.keys()], [...held.values()]]);
}

/** Removes leases whose names begin so, and that ended longer ago than this. Milliseconds. */
export async function removeLeases(
  db: Queryable,
  o: { readonly prefix: string; readonly endedMs: number },
): Promise<void> {
  await db.query(
    `delete from leases
      where starts_with(name, $1) and expires_at < clock_timestamp() - $2 * interval '1 millisecond'`,
    [o.prefix, o.endedMs],
  );
}

// Locked in the order of their names, as everywhere: no two statements wait for each other. Whether a
// lease is still ours its token says, not its expiry.
const RENEW = `
with mine as (
  select l.name from leases l
    join unnest($1::text[], $2::bigint[]) as g (name, token) on g.name = l.name and g.token = l.token
   order by l.name for no key update of l
), renewed as (
  update leases l set expires_at = clock_timestamp() + $3 * interval '1 millisecond'
    from mine where l.name = mine.name
  returning l.name
)
select array(select name from renewed) as renewed,
       (select count(*)::int from leases
         where starts_with(name, $4) and expires_at > clock_timestamp()) as members,
       (select extract(epoch from min(expires_at) - clock_timestamp())::float8 * 1000 from leases
         where starts_with(name, $5) and token <> all($2::bigint[])
           and expires_at > clock_timestamp()) as "othersEndMs"`;

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
