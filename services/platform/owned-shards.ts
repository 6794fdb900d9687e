import { type LeaseTokens, shardLease } from './shard-leases.ts';

interface OwnedShard {
  readonly token: bigint;
  /**
   * True when this process hands the shard over as soon as no work is in flight. Until then no new work starts for the
   * shard.
   */
  isReleasing: boolean;
}

/** The shards whose leases this process owns, each with the mark whether this process hands it over. */
export class OwnedShards {
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
