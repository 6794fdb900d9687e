import type pg from 'pg';
import {
  acquireLeases,
  type HeldLeases,
  type Renewal,
  releaseLeases,
  removeLeases,
  renewLeases,
} from './shard-leases.ts';

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
  /** Longer in tests: a machine that stands still must not lose them. {@link SHARD_LEASE_MS} unless told otherwise. */
  readonly leaseMs?: number;
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
  /**
   * From now on nothing is to be begun, and each {@link ShardHolder.tend} gives back what nothing is
   * under way of; what is under way may still be written down in the name of its token. For a stop
   * that waits: whoever hangs in one shard keeps back that one only.
   */
  leave(): void;
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

/** Divides the shards evenly among the replicas that are alive. */
export function createShardHolder(o: ShardOptions): ShardHolder {
  const shards = new Map<number, Held>();
  const memberPrefix = `${o.name}/member/`;
  const memberName = memberPrefix + o.owner;
  const leaseMs = o.leaseMs ?? SHARD_LEASE_MS;
  const lease = { owner: o.owner, ttlMs: leaseMs };
  let membership: bigint | undefined;
  let membersBefore = 0;
  let unrestUntil = 0;
  let isGoing = false;

  const isSafe = ({ safeUntil, isLeaving }: Held, now: number): boolean =>
    !isGoing && !isLeaving && now < safeUntil;

  const leasesOf = (held: readonly (readonly [number, Held])[]): Map<string, bigint> =>
    new Map(held.map(([shard, { token }]) => [shardLease(o.name, shard), token]));

  /** Everything that this process holds, its membership included. */
  function ownLeases(): HeldLeases {
    const own = leasesOf([...shards]);
    if (membership !== undefined) own.set(memberName, membership);
    return own;
  }

  async function renew(): Promise<Renewal> {
    const asked = performance.now();
    const entries = [...shards];
    const where = { memberPrefix, prefix: `${o.name}/` };
    const renewal = await renewLeases(o.pool, ownLeases(), { ttlMs: leaseMs, ...where });
    if (!renewal.renewed.has(memberName)) membership = undefined;
    for (const [shard, held] of entries) {
      const isOurs = renewal.renewed.has(shardLease(o.name, shard));
      if (isOurs) held.safeUntil = asked + leaseMs;
      else shards.delete(shard);
    }
    return renewal;
  }

  /** Each process has a name of its own: the row of one that was killed is never taken over. */
  async function join(): Promise<void> {
    await removeLeases(o.pool, { prefix: memberPrefix, endedMs: FORGET_AFTER_MS });
    const taken = await acquireLeases(o.pool, [memberName], { ...lease, limit: 1 });
    membership = taken.get(memberName);
  }

  async function takeFree(room: number): Promise<void> {
    const others = Array.from({ length: o.count }, (_, shard) => shard).filter(
      (shard) => !shards.has(shard),
    );
    if (room <= 0 || others.length === 0) return;
    const asked = performance.now();
    const names = others.map((shard) => shardLease(o.name, shard));
    const taken = await acquireLeases(o.pool, names, { ...lease, limit: room });
    for (const shard of others) {
      const token = taken.get(shardLease(o.name, shard));
      if (token === undefined) continue;
      shards.set(shard, { token, safeUntil: asked + leaseMs, isLeaving: false });
    }
  }

  const isBusy = (shard: number): boolean => o.isBusy?.(shard) ?? false;

  /** First what nothing is under way of, then what is being left anyway, then what was taken last. */
  function inOrderOfLeaving(): { shard: number; held: Held; rank: number }[] {
    return [...shards]
      .map(([shard, held]) => ({ shard, held, rank: isBusy(shard) ? (held.isLeaving ? 1 : 2) : 0 }))
      .reverse()
      .toSorted((a, b) => a.rank - b.rank);
  }

  async function giveUpExtra(share: number): Promise<void> {
    const extra = shards.size - share;
    if (extra <= 0) {
      for (const held of shards.values()) held.isLeaving = false;
      return;
    }
    const ready: (readonly [number, Held])[] = [];
    inOrderOfLeaving().forEach(({ shard, held, rank }, nth) => {
      held.isLeaving = nth < extra;
      if (held.isLeaving && rank === 0) ready.push([shard, held]);
    });
    for (const [shard] of ready) shards.delete(shard);
    await releaseLeases(o.pool, leasesOf(ready));
  }

  /** The others count without us as soon as we are no member. */
  async function resign(): Promise<void> {
    if (membership === undefined) return;
    const own = new Map([[memberName, membership]]);
    membership = undefined;
    await releaseLeases(o.pool, own);
  }

  /** Notes whether members came or went. Milliseconds until the next tending. */
  function restAfter({ members, othersEndMs }: Omit<Renewal, 'renewed'>): number {
    const now = performance.now();
    if (members !== membersBefore) {
      membersBefore = members;
      unrestUntil = now + UNREST_MS;
    }
    const isShort = shards.size < Math.floor(o.count / members);
    const isLeaving = [...shards.values()].some((held) => held.isLeaving);
    if (now < unrestUntil && (isShort || isLeaving)) return TEND_OFTEN_MS;
    return Math.min(TEND_EVERY_MS, (othersEndMs ?? TEND_EVERY_MS) + AFTER_END_MS);
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
      const { members: known, othersEndMs } = await renew();
      if (isGoing) {
        await resign();
        await giveUpExtra(0);
        return shards.size > 0 && performance.now() < unrestUntil ? TEND_OFTEN_MS : TEND_EVERY_MS;
      }
      const isNew = membership === undefined;
      if (isNew) await join();
      const members = Math.max(1, known + (isNew ? 1 : 0));
      const share = Math.ceil(o.count / members);
      await giveUpExtra(share);
      await takeFree(share - shards.size);
      return restAfter({ members, othersEndMs });
    },
    leave() {
      if (isGoing) return;
      isGoing = true;
      unrestUntil = performance.now() + UNREST_MS;
    },
    async release() {
      const own = ownLeases();
      shards.clear();
      membership = undefined;
      await releaseLeases(o.pool, own);
    },
  };
}
