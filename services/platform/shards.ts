import type pg from 'pg';
import { HeldShards } from './held-shards.ts';
import { createLeaseWatch, type LeaseWatch, type ProcessLease } from './lease-watch.ts';
import {
  acquireLeases,
  type HeldLeases,
  type LeaseNames,
  type Renewal,
  releaseLeases,
  removeDeadProcesses,
  removeOwner,
  renewLeases,
  shardLease,
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

/** Divides the shards evenly among the replicas that are alive. */
export function createShardHolder(o: ShardOptions): ShardHolder {
  return new LeasedShards(o);
}

class LeasedShards implements ShardHolder {
  readonly #o: ShardOptions;
  readonly #names: LeaseNames;
  readonly #processName: string;
  readonly #memberName: string;
  readonly #leaseMs: number;
  readonly #watch: LeaseWatch;
  readonly #shards: HeldShards;
  /** Token of the row of this process; undefined while it has none. */
  #processToken: bigint | undefined;
  #membership: bigint | undefined;
  /** Start of the last successful renewal plus the lease, by the monotonic clock. */
  #safeUntil = Number.NEGATIVE_INFINITY;
  #prolongedAt = performance.now();
  #membersBefore = 0;
  #rebalancingUntil = 0;
  #isDraining = false;

  constructor(o: ShardOptions) {
    this.#o = o;
    this.#names = {
      prefix: `${o.name}/`,
      processPrefix: `${o.name}/process/`,
      memberPrefix: `${o.name}/member/`,
    };
    this.#processName = this.#names.processPrefix + o.owner;
    this.#memberName = this.#names.memberPrefix + o.owner;
    this.#leaseMs = o.leaseMs ?? SHARD_LEASE_MS;
    this.#watch = createLeaseWatch(this.#leaseMs);
    this.#shards = new HeldShards(o.name, o.isBusy ?? (() => false));
  }

  held(): number[] {
    return this.#isSafe() ? this.#shards.staying() : [];
  }

  tokenOf(shard: number): bigint | undefined {
    return this.#isSafe() ? this.#shards.tokenOf(shard) : undefined;
  }

  #isSafe(): boolean {
    return !this.#isDraining && performance.now() < this.#safeUntil;
  }

  async rebalance(): Promise<number> {
    const token = this.#processToken ?? (this.#isDraining ? undefined : await this.#begin());
    if (token === undefined) return REBALANCE_EVERY_MS;
    const { members: owners, dead, othersEndMs, isAlive } = await this.#renew(token);
    if (!isAlive) return this.#isDraining ? REBALANCE_EVERY_MS : REBALANCE_OFTEN_MS;
    if (this.#isDraining) return this.#drainStep();
    await removeDeadProcesses(this.#o.pool, { dead, names: this.#names });
    const isNew = this.#membership === undefined;
    if (isNew) await this.#join();
    const living = owners.filter((owner) => !dead.some((one) => one.owner === owner));
    const members = Math.max(1, living.length + (isNew ? 1 : 0));
    const share = Math.ceil(this.#o.count / members);
    await releaseLeases(this.#o.pool, this.#shards.takeExtra(share));
    await this.#takeFree(share - this.#shards.size);
    return this.#restAfter(members, othersEndMs);
  }

  drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    this.#rebalancingUntil = performance.now() + REBALANCING_MS;
  }

  async release(): Promise<void> {
    const own = this.#ownLeases();
    if (this.#processToken !== undefined) own.set(this.#processName, this.#processToken);
    this.#shards.clear();
    [this.#processToken, this.#membership] = [undefined, undefined];
    await releaseLeases(this.#o.pool, own);
  }

  /** The name of a process is unique, so the row of a killed process is never taken over. */
  async #begin(): Promise<bigint | undefined> {
    this.#shards.clear();
    this.#membership = undefined;
    await removeOwner(this.#o.pool, { owner: this.#o.owner, prefix: this.#names.prefix });
    const asked = performance.now();
    const taken = await this.#acquire([this.#processName], { ttlMs: this.#leaseMs, limit: 1 });
    this.#processToken = taken.get(this.#processName);
    this.#safeUntil = asked + this.#leaseMs;
    return this.#processToken;
  }

  async #renew(token: bigint): Promise<Renewal & { dead: readonly ProcessLease[] }> {
    const asked = performance.now();
    const isProlonging = asked >= this.#prolongedAt + PROLONG_EVERY_MS;
    const renewal = await renewLeases(
      this.#o.pool,
      { name: this.#processName, token, ttlMs: this.#leaseMs },
      {
        held: this.#ownLeases(),
        names: this.#names,
        ...(isProlonging && { prolongMs: rowMs(this.#leaseMs) }),
      },
    );
    if (isProlonging) this.#prolongedAt = asked;
    if (renewal.isAlive) this.#safeUntil = asked + this.#leaseMs;
    else this.#processToken = undefined;
    if (!renewal.held.has(this.#memberName)) this.#membership = undefined;
    this.#shards.keepOnly(renewal.held);
    return { ...renewal, dead: this.#watch.dead(renewal.others, asked) };
  }

  async #join(): Promise<void> {
    const row = { ttlMs: rowMs(this.#leaseMs), limit: 1 };
    this.#membership = (await this.#acquire([this.#memberName], row)).get(this.#memberName);
  }

  async #takeFree(capacity: number): Promise<void> {
    const { count, name } = this.#o;
    const all = Array.from({ length: count }, (_, shard) => shard);
    const others = all.filter((shard) => !this.#shards.has(shard));
    if (capacity <= 0 || others.length === 0) return;
    const leases = others.map((shard) => shardLease(name, shard));
    const taken = await this.#acquire(leases, { ttlMs: rowMs(this.#leaseMs), limit: capacity });
    for (const shard of others) {
      const token = taken.get(shardLease(name, shard));
      if (token !== undefined) this.#shards.add(shard, token);
    }
  }

  /** Notes whether members joined or left. Returns the milliseconds until the next rebalance. */
  #restAfter(members: number, othersEndMs: number | null): number {
    const now = performance.now();
    if (members !== this.#membersBefore) {
      this.#membersBefore = members;
      this.#rebalancingUntil = now + REBALANCING_MS;
    }
    const isShort = this.#shards.size < Math.floor(this.#o.count / members);
    const isLeaving = this.#shards.staying().length < this.#shards.size;
    if (now < this.#rebalancingUntil && (isShort || isLeaving)) return REBALANCE_OFTEN_MS;
    return Math.min(REBALANCE_EVERY_MS, (othersEndMs ?? REBALANCE_EVERY_MS) + AFTER_END_MS);
  }

  /** Hands over shards without work in flight. Returns the milliseconds until the next call. */
  async #drainStep(): Promise<number> {
    await this.#leaveMembers();
    await releaseLeases(this.#o.pool, this.#shards.takeExtra(0));
    const isRebalancing = this.#shards.size > 0 && performance.now() < this.#rebalancingUntil;
    return isRebalancing ? REBALANCE_OFTEN_MS : REBALANCE_EVERY_MS;
  }

  /** As soon as this process is no member, the others divide the shards without it. */
  async #leaveMembers(): Promise<void> {
    if (this.#membership === undefined) return;
    const own = new Map([[this.#memberName, this.#membership]]);
    this.#membership = undefined;
    await releaseLeases(this.#o.pool, own);
  }

  #acquire(leases: readonly string[], o: { ttlMs: number; limit: number }): Promise<HeldLeases> {
    return acquireLeases(this.#o.pool, leases, { ...o, owner: this.#o.owner, names: this.#names });
  }

  /** The leases that are valid while the process is alive: its shards and its membership. */
  #ownLeases(): Map<string, bigint> {
    const own = this.#shards.leases();
    if (this.#membership !== undefined) own.set(this.#memberName, this.#membership);
    return own;
  }
}

/** The rows of shards outlast the lease of their process. */
function rowMs(leaseMs: number): number {
  return Math.max(ROW_MS, 4 * leaseMs);
}
