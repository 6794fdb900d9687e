import type pg from 'pg';
import { createLeaseWatch, type ProcessLease } from './lease-watch.ts';
import {
  acquireLeases,
  type HeldLeases,
  type LeaseNames,
  type Renewal,
  releaseLeases,
  removeDeadProcesses,
  removeOwner,
  renewLeases,
} from './shard-leases.ts';

/**
 * After a crash another replica takes over after this time. A live holder may fail to renew for four fifths of it. At
 * 2.5 s, one lost its shards on a machine where 15 processes competed for each core. Milliseconds.
 */
export const SHARD_LEASE_MS = 3_000;

/** How often {@link ShardHolder.rebalance} is to be called when no member joins or leaves. Milliseconds. */
export const REBALANCE_EVERY_MS = 600;

/** After a member joined or left, processes that gain or lose shards rebalance often for this long. Milliseconds. */
const REBALANCING_MS = 2_000;
const REBALANCE_OFTEN_MS = 50;

/** Delay after the end of a lease before it is checked. The leases of one process end almost together. Milliseconds. */
const AFTER_END_MS = 20;

/**
 * The rows of shards are valid only while their process is alive, so they are seldom renewed. They still expire, for
 * older releases that do not know the rows of processes. Milliseconds.
 */
const ROW_MS = 60_000;
const PROLONG_EVERY_MS = 20_000;

export interface ShardOptions {
  readonly pool: pg.Pool;
  /** A name of this process that no other process ever has. */
  readonly owner: string;
  /** What is divided: the first part of the leases' names. */
  readonly name: string;
  /** Shards are numbered from 0 to one less than this. */
  readonly count: number;
  /**
   * Whether the shard has work in flight. A shard that moves to another replica is handed over only when it has none,
   * and gets no new work until then. By default no shard is busy.
   */
  readonly isBusy?: (shard: number) => boolean;
  /** Longer in tests, so that a frozen machine does not lose its shards. {@link SHARD_LEASE_MS} by default. */
  readonly leaseMs?: number;
}

export interface ShardHolder {
  /** Shards for which new work may start at this moment. */
  held(): number[];
  /**
   * The token of a shard for which new work may start at this moment; undefined for other shards. It distinguishes the
   * work of this holder from that of older holders.
   */
  tokenOf(shard: number): bigint | undefined;
  /**
   * Renews the lease of this process, keeps its share of the shards, takes free shards and hands over extra ones.
   * Resolves to the time until the next call. It is short when a lease of another process is about to end, which does
   * not happen while that process is alive, and while shards move. Milliseconds.
   */
  rebalance(): Promise<number>;
  /**
   * For a graceful stop. No new work starts, and each {@link ShardHolder.rebalance} hands over the shards without work
   * in flight. Work in flight may still be recorded with its token. A hanging endpoint delays only its own shard.
   */
  drain(): void;
  /** Releases all leases at once. */
  release(): Promise<void>;
}

/** Name of the lease of a shard. */
export function shardLease(name: string, shard: number): string {
  return `${name}/shard/${shard}`;
}

interface Held {
  readonly token: bigint;
  /** To be handed over as soon as it has no work in flight. */
  isLeaving: boolean;
}

/** Divides the shards evenly among the replicas that are alive. */
export function createShardHolder(o: ShardOptions): ShardHolder {
  const shards = new Map<number, Held>();
  const names: LeaseNames = {
    prefix: `${o.name}/`,
    processPrefix: `${o.name}/process/`,
    memberPrefix: `${o.name}/member/`,
  };
  const processName = names.processPrefix + o.owner;
  const memberName = names.memberPrefix + o.owner;
  const leaseMs = o.leaseMs ?? SHARD_LEASE_MS;
  const watch = createLeaseWatch(leaseMs);
  /** Token of the row of this process; undefined while it has none. */
  let processToken: bigint | undefined;
  let membership: bigint | undefined;
  /** Start of the last successful renewal plus the lease, by the monotonic clock. */
  let safeUntil = Number.NEGATIVE_INFINITY;
  let prolongedAt = performance.now();
  let membersBefore = 0;
  let rebalancingUntil = 0;
  let isDraining = false;

  const isSafe = ({ isLeaving }: Held): boolean =>
    !isDraining && !isLeaving && performance.now() < safeUntil;

  const leasesOf = (held: readonly (readonly [number, Held])[]): Map<string, bigint> =>
    new Map(held.map(([shard, { token }]) => [shardLease(o.name, shard), token]));

  /** The leases that are valid while the process is alive: its shards and its membership. */
  function ownLeases(): HeldLeases {
    const own = leasesOf([...shards]);
    if (membership !== undefined) own.set(memberName, membership);
    return own;
  }

  async function renew(token: bigint): Promise<Renewal & { dead: readonly ProcessLease[] }> {
    const asked = performance.now();
    const isProlonging = asked >= prolongedAt + PROLONG_EVERY_MS;
    const renewal = await renewLeases(
      o.pool,
      { name: processName, token, ttlMs: leaseMs },
      { held: ownLeases(), names, ...(isProlonging && { prolongMs: rowMs(leaseMs) }) },
    );
    if (isProlonging) prolongedAt = asked;
    if (renewal.isAlive) safeUntil = asked + leaseMs;
    else processToken = undefined;
    if (!renewal.held.has(memberName)) membership = undefined;
    for (const shard of [...shards.keys()]) {
      if (!renewal.held.has(shardLease(o.name, shard))) shards.delete(shard);
    }
    return { ...renewal, dead: watch.dead(renewal.others, asked) };
  }

  /** The name of a process is unique, so the row of a killed process is never taken over. */
  async function begin(): Promise<bigint | undefined> {
    shards.clear();
    membership = undefined;
    await removeOwner(o.pool, { owner: o.owner, prefix: names.prefix });
    const asked = performance.now();
    const lease = { owner: o.owner, ttlMs: leaseMs, limit: 1, names };
    processToken = (await acquireLeases(o.pool, [processName], lease)).get(processName);
    safeUntil = asked + leaseMs;
    return processToken;
  }

  async function join(): Promise<void> {
    const lease = { owner: o.owner, ttlMs: rowMs(leaseMs), limit: 1, names };
    membership = (await acquireLeases(o.pool, [memberName], lease)).get(memberName);
  }

  async function takeFree(capacity: number): Promise<void> {
    const others = Array.from({ length: o.count }, (_, shard) => shard).filter(
      (shard) => !shards.has(shard),
    );
    if (capacity <= 0 || others.length === 0) return;
    const leases = others.map((shard) => shardLease(o.name, shard));
    const lease = { owner: o.owner, ttlMs: rowMs(leaseMs), limit: capacity, names };
    const taken = await acquireLeases(o.pool, leases, lease);
    for (const shard of others) {
      const token = taken.get(shardLease(o.name, shard));
      if (token !== undefined) shards.set(shard, { token, isLeaving: false });
    }
  }

  const isBusy = (shard: number): boolean => o.isBusy?.(shard) ?? false;

  /** Order of handing over: shards without work in flight first, then shards that are leaving, then the newest. */
  function inHandOverOrder(): { shard: number; held: Held; rank: number }[] {
    return [...shards]
      .map(([shard, held]) => ({ shard, held, rank: isBusy(shard) ? (held.isLeaving ? 1 : 2) : 0 }))
      .reverse()
      .toSorted((a, b) => a.rank - b.rank);
  }

  async function handOverExtra(share: number): Promise<void> {
    const extra = shards.size - share;
    if (extra <= 0) {
      for (const held of shards.values()) held.isLeaving = false;
      return;
    }
    const ready: (readonly [number, Held])[] = [];
    inHandOverOrder().forEach(({ shard, held, rank }, nth) => {
      held.isLeaving = nth < extra;
      if (held.isLeaving && rank === 0) ready.push([shard, held]);
    });
    for (const [shard] of ready) shards.delete(shard);
    await releaseLeases(o.pool, leasesOf(ready));
  }

  /** As soon as this process is no member, the others divide the shards without it. */
  async function leaveMembers(): Promise<void> {
    if (membership === undefined) return;
    const own = new Map([[memberName, membership]]);
    membership = undefined;
    await releaseLeases(o.pool, own);
  }

  /** Notes whether members joined or left. Returns the milliseconds until the next rebalance. */
  function restAfter({
    members,
    othersEndMs,
  }: {
    members: number;
    othersEndMs: number | null;
  }): number {
    const now = performance.now();
    if (members !== membersBefore) {
      membersBefore = members;
      rebalancingUntil = now + REBALANCING_MS;
    }
    const isShort = shards.size < Math.floor(o.count / members);
    const isLeaving = [...shards.values()].some((held) => held.isLeaving);
    if (now < rebalancingUntil && (isShort || isLeaving)) return REBALANCE_OFTEN_MS;
    return Math.min(REBALANCE_EVERY_MS, (othersEndMs ?? REBALANCE_EVERY_MS) + AFTER_END_MS);
  }

  /** Hands over shards without work in flight. Returns the milliseconds until the next call. */
  async function drainStep(): Promise<number> {
    await leaveMembers();
    await handOverExtra(0);
    const isRebalancing = shards.size > 0 && performance.now() < rebalancingUntil;
    return isRebalancing ? REBALANCE_OFTEN_MS : REBALANCE_EVERY_MS;
  }

  return {
    held: () => [...shards].filter(([, held]) => isSafe(held)).map(([shard]) => shard),
    tokenOf(shard) {
      const held = shards.get(shard);
      return held && isSafe(held) ? held.token : undefined;
    },
    async rebalance() {
      const token = processToken ?? (isDraining ? undefined : await begin());
      if (token === undefined) return REBALANCE_EVERY_MS;
      const { members: owners, dead, othersEndMs, isAlive } = await renew(token);
      if (!isAlive) return isDraining ? REBALANCE_EVERY_MS : REBALANCE_OFTEN_MS;
      if (isDraining) return drainStep();
      await removeDeadProcesses(o.pool, { dead, names });
      const isNew = membership === undefined;
      if (isNew) await join();
      const living = owners.filter((owner) => !dead.some((one) => one.owner === owner));
      const members = Math.max(1, living.length + (isNew ? 1 : 0));
      const share = Math.ceil(o.count / members);
      await handOverExtra(share);
      await takeFree(share - shards.size);
      return restAfter({ members, othersEndMs });
    },
    drain() {
      if (isDraining) return;
      isDraining = true;
      rebalancingUntil = performance.now() + REBALANCING_MS;
    },
    async release() {
      const own = new Map(ownLeases());
      if (processToken !== undefined) own.set(processName, processToken);
      shards.clear();
      [processToken, membership] = [undefined, undefined];
      await releaseLeases(o.pool, own);
    },
  };
}

/** The rows of shards outlast the lease of their process. */
function rowMs(leaseMs: number): number {
  return Math.max(ROW_MS, 4 * leaseMs);
}
