import type pg from 'pg';
import { createLeaseWatch, type LeaseWatch, type ProcessLease } from './lease-watch.ts';
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
 * Length of the lease of a process. When a process crashes, another replica takes over its shards after this time. A
 * live process keeps its shards when it cannot renew its lease for four fifths of this time. With 2.5 s, live processes
 * lost their shards on a machine with 15 busy processes for each core. Milliseconds.
 */
const SHARD_LEASE_MS = 3_000;

/** How often {@link ShardHolder.rebalance} must be called while no member joins or leaves. Milliseconds. */
export const REBALANCE_EVERY_MS = 600;

/**
 * How often {@link ShardHolder.rebalance} must be called while this process is the only one. A late renewal then does
 * no harm, because there is no other process that could take a shard. A process that joins waits at most this long for
 * its share. Milliseconds.
 */
export const REBALANCE_ALONE_MS = 1_200;

/** For this time after a member joined or left, processes that gain or lose shards rebalance often. Milliseconds. */
const REBALANCING_MS = 2_000;
const REBALANCE_OFTEN_MS = 50;

/**
 * Time from the expiry of a lease to its check. The leases of one process expire together, so one check finds them all.
 * Milliseconds.
 */
const AFTER_EXPIRY_MS = 20;

/**
 * Expiry of the rows of shards. They are valid as long as the row of their process exists, so they are not renewed. The
 * expiry frees rows that a process wrote while another one removed it as dead. Milliseconds.
 */
const ROW_MS = 60_000;

interface ShardOptions {
  readonly pool: pg.Pool;
  /** A name that only this process has ever had. */
  readonly owner: string;
  /** Name of the work that is divided; also the prefix of the names of its leases. */
  readonly name: string;
  /** Number of shards. They are numbered from 0. */
  readonly count: number;
  /**
   * Whether the shard has work in flight; by default never. A process that hands a shard over starts no new work for
   * it, and waits until this is false.
   */
  readonly isBusy?: (shard: number) => boolean;
  /** {@link SHARD_LEASE_MS} by default. Tests use longer leases, so that a slow machine does not lose its shards. */
  readonly leaseMs?: number;
}

export interface ShardHolder {
  /** The shards for which new work may start now. */
  owned(): number[];
  /**
   * The token of a shard for which new work may start now; undefined for other shards. The token distinguishes the work
   * of this process from that of earlier owners.
   */
  tokenOf(shard: number): bigint | undefined;
  /**
   * Renews the row of this process, takes free shards up to its share, and hands over the shards above it.
   *
   * Resolves to the time until the next call. The time is short while shards move, and when the row of another process
   * is about to expire. Milliseconds.
   */
  rebalance(): Promise<number>;
  /**
   * Begins a graceful stop. No new work starts, and each {@link ShardHolder.rebalance} hands over the shards without
   * work in flight. The results of work in flight may still be recorded with its token. A hanging endpoint delays only
   * its own shard.
   */
  drain(): void;
  /** Releases all leases immediately. */
  release(): Promise<void>;
}

/** Creates the holder of a process's share of the shards. All live replicas have equal shares. */
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
  /**
   * Until this time the leases are certainly valid: start of the last successful renewal plus the lease, by the
   * monotonic clock.
   */
  #safeUntil = Number.NEGATIVE_INFINITY;
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

  /**
   * Creates the row of this process. No other process has the same name, so no row of another process can be in the
   * way.
   */
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
    const renewal = await renewLeases(
      this.#o.pool,
      { name: this.#processName, token, ttlMs: this.#leaseMs },
      { owned: this.#ownLeases(), names: this.#names },
    );
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

  /** Notes whether members joined or left. Returns the time until the next rebalance. Milliseconds. */
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

  /** Hands over the shards without work in flight. Returns the time until the next call. Milliseconds. */
  async #drainStep(): Promise<number> {
    await this.#leaveMembers();
    await releaseLeases(this.#o.pool, this.#shards.takeExtra(0));
    const isRebalancing = this.#shards.size > 0 && performance.now() < this.#rebalancingUntil;
    return isRebalancing ? REBALANCE_OFTEN_MS : REBALANCE_EVERY_MS;
  }

  /** Ends the membership of this process. The others then divide the shards without it. */
  async #leaveMembers(): Promise<void> {
    if (this.#membership === undefined) return;
    const own = new Map([[this.#memberName, this.#membership]]);
    this.#membership = undefined;
    await releaseLeases(this.#o.pool, own);
  }

  #acquire(leases: readonly string[], o: { ttlMs: number; limit: number }): Promise<LeaseTokens> {
    return acquireLeases(this.#o.pool, leases, { ...o, owner: this.#o.owner, names: this.#names });
  }

  /** The leases that are valid while this process is alive: those of its shards, and its membership. */
  #ownLeases(): Map<string, bigint> {
    const own = this.#shards.leases();
    if (this.#membership !== undefined) own.set(this.#memberName, this.#membership);
    return own;
  }
}

/** The length of the rows of shards. It is longer than the lease of their process. */
function rowMs(leaseMs: number): number {
  return Math.max(ROW_MS, 4 * leaseMs);
}

interface OwnedShard {
  readonly token: bigint;
  /**
   * True when this process hands the shard over as soon as no work is in flight. Until then no new work starts for the
   * shard.
   */
  isReleasing: boolean;
}

/** The shards whose leases this process owns, each with the mark whether this process hands it over. */
class OwnedShards {
  readonly #name: string;
  readonly #isBusy: (shard: number) => boolean;
  /** The shards, in the order in which this process took them. */
  readonly #shards = new Map<number, OwnedShard>();

  /**
   * @param name prefix of the names of the leases.
   * @param isBusy whether a shard has work in flight.
   */
  constructor(name: string, isBusy: (shard: number) => boolean) {
    this.#name = name;
    this.#isBusy = isBusy;
  }

  get size(): number {
    return this.#shards.size;
  }

  has(shard: number): boolean {
    return this.#shards.has(shard);
  }

  add(shard: number, token: bigint): void {
    this.#shards.set(shard, { token, isReleasing: false });
  }

  clear(): void {
    this.#shards.clear();
  }

  /** Removes the shards whose leases are not in this set, because other processes took them. */
  keepOnly(leases: ReadonlySet<string>): void {
    for (const shard of [...this.#shards.keys()]) {
      if (!leases.has(shardLease(this.#name, shard))) this.#shards.delete(shard);
    }
  }

  /** Returns the shards that this process does not hand over. */
  kept(): number[] {
    return [...this.#shards].filter(([, { isReleasing }]) => !isReleasing).map(([shard]) => shard);
  }

  /** Returns the token of a shard that this process does not hand over; undefined for other shards. */
  tokenOf(shard: number): bigint | undefined {
    const owned = this.#shards.get(shard);
    return owned?.isReleasing ? undefined : owned?.token;
  }

  leases(): Map<string, bigint> {
    return this.#leasesOf([...this.#shards]);
  }

  /**
   * Marks shards for the handover, so that this process keeps `share` of them. Removes marked shards without work
   * in flight, and returns their leases.
   */
  takeExtra(share: number): LeaseTokens {
    const extra = this.size - share;
    const ready: (readonly [number, OwnedShard])[] = [];
    this.#inHandOverOrder().forEach(({ shard, owned, rank }, nth) => {
      owned.isReleasing = nth < extra;
      if (owned.isReleasing && rank === 0) ready.push([shard, owned]);
    });
    for (const [shard] of ready) this.#shards.delete(shard);
    return this.#leasesOf(ready);
  }

  /**
   * Returns the shards in the order of the handover: first those without work in flight, then those that are marked
   * already, then the newest.
   */
  #inHandOverOrder(): { shard: number; owned: OwnedShard; rank: number }[] {
    const rankOf = (shard: number, { isReleasing }: OwnedShard): number => {
      if (!this.#isBusy(shard)) return 0;
      return isReleasing ? 1 : 2;
    };
    return [...this.#shards]
      .map(([shard, owned]) => ({ shard, owned, rank: rankOf(shard, owned) }))
      .reverse()
      .toSorted((a, b) => a.rank - b.rank);
  }

  #leasesOf(shards: readonly (readonly [number, OwnedShard])[]): Map<string, bigint> {
    return new Map(shards.map(([shard, { token }]) => [shardLease(this.#name, shard), token]));
  }
}
