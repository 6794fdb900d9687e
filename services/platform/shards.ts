import type pg from 'pg';
import { createLeaseWatch, type LeaseWatch, type ProcessLease } from './lease-watch.ts';
import { OwnedShards } from './owned-shards.ts';
import {
  acquireLeases,
  type LeaseNames,
  type LeaseTokens,
  type Renewal,
  releaseLeases,
  removeDeadProcesses,
  removeOwner,
  renewLeases,
  shardLease,
} from './shard-leases.ts';

/**
 * When a process crashes, another replica takes over its shards after this time. A live process keeps its shards if it
 * cannot renew its leases for four fifths of this time. With 2.5 s a live process lost its shards on a machine with 15
 * busy processes per core. Milliseconds.
 */
const SHARD_LEASE_MS = 3_000;

/** {@link ShardHolder.rebalance} must be called this often when no member joins or leaves. Milliseconds. */
export const REBALANCE_EVERY_MS = 600;

/**
 * The same for the only process. Another process can take nothing from it, so a late renewal costs nothing; a process
 * that joins waits at most this long for its share. Milliseconds.
 */
export const REBALANCE_ALONE_MS = 1_200;

/** After a member joined or left, processes that gain or lose shards rebalance often for this long. Milliseconds. */
const REBALANCING_MS = 2_000;
const REBALANCE_OFTEN_MS = 50;

/** An expired lease is checked after this delay, because the leases of one process expire together. Milliseconds. */
const AFTER_EXPIRY_MS = 20;

/**
 * The rows of shards are valid only while their process is alive, so they are seldom renewed. They expire all the same,
 * because older releases do not know the rows of processes. Milliseconds.
 */
const ROW_MS = 60_000;
const PROLONG_EVERY_MS = 20_000;

export interface ShardOptions {
  readonly pool: pg.Pool;
  /** A name of this process that no other process ever has. */
  readonly owner: string;
  /** Name of the divided work, and prefix of the names of the leases. */
  readonly name: string;
  /** Shards are numbered from 0 to one less than this. */
  readonly count: number;
  /**
   * Whether the shard has work in flight. A process hands a shard over only when it has none, and starts no new work for
   * it until then. By default no shard is busy.
   */
  readonly isBusy?: (shard: number) => boolean;
  /** {@link SHARD_LEASE_MS} by default. Tests use longer leases, so that a slow machine does not lose its shards. */
  readonly leaseMs?: number;
}

export interface ShardHolder {
  /** Shards for which new work may start at this moment. */
  owned(): number[];
  /**
   * The token of a shard for which new work may start at this moment; undefined for other shards. The token
   * distinguishes the work of this process from the work of earlier owners.
   */
  tokenOf(shard: number): bigint | undefined;
  /**
   * Renews the lease of this process, keeps its share of the shards, takes free shards and hands over extra ones.
   * Resolves to the time until the next call. That time is short while shards move, and when the lease of another
   * process is about to expire because that process is dead. Milliseconds.
   */
  rebalance(): Promise<number>;
  /**
   * For a graceful stop. No new work starts, and each {@link ShardHolder.rebalance} hands over the shards without work
   * in flight. Work in flight may still be recorded with its token. A hanging endpoint delays only its own shard.
   */
  drain(): void;
  /** Releases all leases immediately. */
  release(): Promise<void>;
}

/** Creates the part of a process that owns its share of the shards. All live replicas have equal shares. */
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
  readonly #shards: OwnedShards;
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
    this.#shards = new OwnedShards(o.name, o.isBusy ?? (() => false));
  }

  owned(): number[] {
    return this.#isSafe() ? this.#shards.kept() : [];
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
    const {
      members: owners,
      otherProcesses,
      dead,
      nextExpiryMs,
      isAlive,
    } = await this.#renew(token);
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
    return this.#pauseAfter(members, { nextExpiryMs, isAlone: otherProcesses.length === 0 });
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

  /** Creates the row of this process. Each process has a unique name, so the row cannot belong to another process. */
  async #begin(): Promise<bigint | undefined> {
    this.#shards.clear();
    this.#membership = undefined;
    await removeOwner(this.#o.pool, { owner: this.#o.owner, prefix: this.#names.prefix });
    const startedAt = performance.now();
    const taken = await this.#acquire([this.#processName], { ttlMs: this.#leaseMs, limit: 1 });
    this.#processToken = taken.get(this.#processName);
    this.#safeUntil = startedAt + this.#leaseMs;
    return this.#processToken;
  }

  async #renew(token: bigint): Promise<Renewal & { dead: readonly ProcessLease[] }> {
    const startedAt = performance.now();
    const isProlonging = startedAt >= this.#prolongedAt + PROLONG_EVERY_MS;
    const renewal = await renewLeases(
      this.#o.pool,
      { name: this.#processName, token, ttlMs: this.#leaseMs },
      {
        owned: this.#ownLeases(),
        names: this.#names,
        ...(isProlonging && { prolongMs: rowMs(this.#leaseMs) }),
      },
    );
    if (isProlonging) this.#prolongedAt = startedAt;
    if (renewal.isAlive) this.#safeUntil = startedAt + this.#leaseMs;
    else this.#processToken = undefined;
    if (!renewal.owned.has(this.#memberName)) this.#membership = undefined;
    this.#shards.keepOnly(renewal.owned);
    return { ...renewal, dead: this.#watch.dead(renewal.otherProcesses, startedAt) };
  }

  async #join(): Promise<void> {
    const row = { ttlMs: rowMs(this.#leaseMs), limit: 1 };
    this.#membership = (await this.#acquire([this.#memberName], row)).get(this.#memberName);
  }

  async #takeFree(capacity: number): Promise<void> {
    const { count, name } = this.#o;
    const all = Array.from({ length: count }, (_, shard) => shard);
    const notOwned = all.filter((shard) => !this.#shards.has(shard));
    if (capacity <= 0 || notOwned.length === 0) return;
    const leases = notOwned.map((shard) => shardLease(name, shard));
    const taken = await this.#acquire(leases, { ttlMs: rowMs(this.#leaseMs), limit: capacity });
    for (const shard of notOwned) {
      const token = taken.get(shardLease(name, shard));
      if (token !== undefined) this.#shards.add(shard, token);
    }
  }

  /** Notes whether members joined or left. Returns the milliseconds until the next rebalance. */
  #pauseAfter(
    members: number,
    o: { readonly nextExpiryMs: number | null; readonly isAlone: boolean },
  ): number {
    const now = performance.now();
    if (members !== this.#membersBefore) {
      this.#membersBefore = members;
      this.#rebalancingUntil = now + REBALANCING_MS;
    }
    const isShort = this.#shards.size < Math.floor(this.#o.count / members);
    const isReleasing = this.#shards.kept().length < this.#shards.size;
    if (now < this.#rebalancingUntil && (isShort || isReleasing)) return REBALANCE_OFTEN_MS;
    const everyMs = o.isAlone ? REBALANCE_ALONE_MS : REBALANCE_EVERY_MS;
    return Math.min(everyMs, (o.nextExpiryMs ?? everyMs) + AFTER_EXPIRY_MS);
  }

  /** Hands over shards without work in flight. Returns the milliseconds until the next call. */
  async #drainStep(): Promise<number> {
    await this.#leaveMembers();
    await releaseLeases(this.#o.pool, this.#shards.takeExtra(0));
    const isRebalancing = this.#shards.size > 0 && performance.now() < this.#rebalancingUntil;
    return isRebalancing ? REBALANCE_OFTEN_MS : REBALANCE_EVERY_MS;
  }

  /** Ends the membership. The other processes then divide the shards without this one. */
  async #leaveMembers(): Promise<void> {
    if (this.#membership === undefined) return;
    const own = new Map([[this.#memberName, this.#membership]]);
    this.#membership = undefined;
    await releaseLeases(this.#o.pool, own);
  }

  #acquire(leases: readonly string[], o: { ttlMs: number; limit: number }): Promise<LeaseTokens> {
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
