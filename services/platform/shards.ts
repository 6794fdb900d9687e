import type pg from 'pg';

/**
 * After a crash another replica goes on when this time is over. A holder that lives may be kept from
 * tending for four fifths of it: at 2.5 s one lost its shards on a machine where 15 processes wanted each core. Milliseconds.
 */
export const SHARD_LEASE_MS = 3_000;

/** How often {@link ShardHolder.tend} is to be called when nothing changes. Milliseconds. */
export const TEND_EVERY_MS = 600;

/** For so long after a member came or went, those that wait for shards or give some up tend them often. Milliseconds. */
const UNREST_MS = 2_000;
const TEND_OFTEN_MS = 50;

/** A lease is looked at only when it has surely ended; those of one process end almost together. Milliseconds. */
const AFTER_END_MS = 20;

/** A member without a sign of life for so long does not come back. Milliseconds. */
const FORGET_AFTER_MS = 60_000;

export interface ShardOptions {
  readonly pool: pg.Pool;
  /** This process, by a name that no other ever has. */
  readonly owner: string;
  /** What is divided: the first part of the leases' names. */
  readonly name: string;
  /** Shards are numbered from 0 to one less than this. */
  readonly count: number;
  /**
   * Whether something of the shard is under way. One that another replica is to have is given up
   * only when nothing is; until then nothing new is to be begun. Nothing ever is unless told so.
   */
  readonly isBusy?: (shard: number) => boolean;
}

export interface ShardHolder {
  /** Shards for which work may be begun at this moment. */
  held(): number[];
  /**
   * The token of a shard for which work may be begun at this moment, undefined for another.
   * It tells apart what is still done in the name of an older holder.
   */
  tokenOf(shard: number): bigint | undefined;
  /**
   * Says that we are alive, keeps our share of the shards, takes free ones, gives back extra ones.
   * Resolves to how soon it is to be called again: when a lease of another ends, which none does
   * while its holder lives, or while shards change hands. Milliseconds.
   */
  tend(): Promise<number>;
  /** Gives everything back at once, for the others to take. */
  release(): Promise<void>;
}

/** Names the lease of a shard. */
export function shardLease(name: string, shard: number): string {
  return `${name}/shard/${shard}`;
}

interface Held {
  readonly token: bigint;
  /** By the monotonic clock: what the database says happened after this moment began. */
  safeUntil: number;
  /** To be given up as soon as nothing of it is under way. */
  isLeaving: boolean;
}

interface Renewal {
  /** How many members are alive. */
  readonly members: number;
  /** When the first lease of another ends, from now; null when there is none. Milliseconds. */
  readonly othersEndMs: number | null;
}

/** Divides the shards evenly among the replicas that are alive. */
export function createShardHolder(o: ShardOptions): ShardHolder {
  const shards = new Map<number, Held>();
  const memberPrefix = `${o.name}/member/`;
  const memberName = memberPrefix + o.owner;
  let membership: bigint | undefined;
  let membersBefore = 0;
  let unrestUntil = 0;

  const leaseNames = (numbers: readonly number[]): string[] =>
    numbers.map((shard) => shardLease(o.name, shard));

  const isSafe = ({ safeUntil, isLeaving }: Held, now: number): boolean =>
    !isLeaving && now < safeUntil;

  /** One statement, whatever is held. */
  async function renew(): Promise<Renewal> {
    const asked = performance.now();
    const entries = [...shards];
    const names = leaseNames(entries.map(([shard]) => shard));
    const tokens = entries.map(([, { token }]) => token);
    if (membership !== undefined) {
      names.push(memberName);
      tokens.push(membership);
    }
    const { rows } = await o.pool.query<Renewal & { renewed: string[] }>({
      name: 'shards-renew',
      text: RENEW,
      values: [names, tokens, SHARD_LEASE_MS, memberPrefix, `${o.name}/`],
    });
    const renewed = new Set(rows[0]?.renewed);
    if (!renewed.has(memberName)) membership = undefined;
    for (const [shard, held] of entries) {
      if (renewed.has(shardLease(o.name, shard))) held.safeUntil = asked + SHARD_LEASE_MS;
      else shards.delete(shard);
    }
    return { members: rows[0]?.members ?? 0, othersEndMs: rows[0]?.othersEndMs ?? null };
  }

  /** Each process has a name of its own: the row of one that was killed is never taken over. */
  async function join(): Promise<void> {
    await o.pool.query(
      `delete from leases
        where starts_with(name, $1) and expires_at < clock_timestamp() - $2 * interval '1 millisecond'`,
      [memberPrefix, FORGET_AFTER_MS],
    );
    const taken = await acquire([memberName], 1);
    membership = taken.get(memberName);
  }

  /** Takes at most `limit` of those that are free or expired: their tokens, by name. */
  async function acquire(names: string[], limit: number): Promise<Map<string, bigint>> {
    const { rows } = await o.pool.query<{ name: string; token: bigint }>({
      name: 'shards-acquire',
      text: ACQUIRE,
      values: [names, o.owner, SHARD_LEASE_MS, limit],
    });
    return new Map(rows.map(({ name, token }) => [name, token]));
  }

  async function takeFree(room: number): Promise<void> {
    const others = Array.from({ length: o.count }, (_, shard) => shard).filter(
      (shard) => !shards.has(shard),
    );
    if (room <= 0 || others.length === 0) return;
    const asked = performance.now();
    const taken = await acquire(leaseNames(others), room);
    for (const shard of others) {
      const token = taken.get(shardLease(o.name, shard));
      if (token === undefined) continue;
      shards.set(shard, { token, safeUntil: asked + SHARD_LEASE_MS, isLeaving: false });
    }
  }

  async function giveUpExtra(share: number): Promise<void> {
    [...shards.values()].forEach((held, nth) => {
      held.isLeaving = nth >= share;
    });
    const ready = [...shards].filter(
      ([shard, { isLeaving }]) => isLeaving && !(o.isBusy?.(shard) ?? false),
    );
    if (ready.length === 0) return;
    for (const [shard] of ready) shards.delete(shard);
    await giveBack(
      leaseNames(ready.map(([shard]) => shard)),
      ready.map(([, { token }]) => token),
    );
  }

  /** Milliseconds. */
  function restOf({ members, othersEndMs }: Renewal): number {
    const now = performance.now();
    if (members !== membersBefore) [membersBefore, unrestUntil] = [members, now + UNREST_MS];
    const waits = shards.size < Math.floor(o.count / members);
    const isLeaving = [...shards.values()].some((held) => held.isLeaving);
    if (now < unrestUntil && (waits || isLeaving)) return TEND_OFTEN_MS;
    return Math.min(TEND_EVERY_MS, (othersEndMs ?? TEND_EVERY_MS) + AFTER_END_MS);
  }

  async function giveBack(names: string[], tokens: bigint[]): Promise<void> {
    if (names.length === 0) return;
    await o.pool.query(RELEASE, [names, tokens]);
  }

  return {
    held() {
      const now = performance.now();
      return [...shards].filter(([, held]) => isSafe(held, now)).map(([shard]) => shard);
    },
    tokenOf(shard) {
      const held = shards.get(shard);
      return held && isSafe(held, performance.now()) ? held.token : undefined;
    },
    async tend() {
      const renewal = await renew();
      const isNew = membership === undefined;
      if (isNew) await join();
      const members = Math.max(1, renewal.members + (isNew ? 1 : 0));
      const share = Math.ceil(o.count / members);
      await giveUpExtra(share);
      await takeFree(share - shards.size);
      return restOf({ ...renewal, members });
    },
    async release() {
      const names = leaseNames([...shards.keys()]);
      const tokens = [...shards.values()].map(({ token }) => token);
      if (membership !== undefined) {
        names.push(memberName);
        tokens.push(membership);
      }
      shards.clear();
      membership = undefined;
      await giveBack(names, tokens);
    },
  };
}

// Locked in the order of their names, as everywhere: no two statements wait for each other. A lease
// past its expiry that nobody took is still ours: the token says so.
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
