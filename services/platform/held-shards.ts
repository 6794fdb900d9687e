import { type HeldLeases, shardLease } from './shard-leases.ts';

interface Held {
  readonly token: bigint;
  /** To be handed over as soon as it has no work in flight. No new work starts for it. */
  isLeaving: boolean;
}

/** The shards whose leases this process has, and which of them it hands over. */
export class HeldShards {
  readonly #name: string;
  readonly #isBusy: (shard: number) => boolean;
  /** In the order in which they were taken. */
  readonly #shards = new Map<number, Held>();

  /**
   * @param name the first part of the names of the leases.
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
    this.#shards.set(shard, { token, isLeaving: false });
  }

  clear(): void {
    this.#shards.clear();
  }

  /** Forgets shards whose leases are not among these, because other processes took them. */
  keepOnly(leases: ReadonlySet<string>): void {
    for (const shard of [...this.#shards.keys()]) {
      if (!leases.has(shardLease(this.#name, shard))) this.#shards.delete(shard);
    }
  }

  /** The shards that stay. */
  staying(): number[] {
    return [...this.#shards].filter(([, { isLeaving }]) => !isLeaving).map(([shard]) => shard);
  }

  /** The token of a shard that stays; undefined for other shards. */
  tokenOf(shard: number): bigint | undefined {
    const held = this.#shards.get(shard);
    return held?.isLeaving ? undefined : held?.token;
  }

  leases(): Map<string, bigint> {
    return this.#leasesOf([...this.#shards]);
  }

  /**
   * Marks as many shards as leaving as there are above `share`. Removes those that have no work in flight, and returns
   * their leases.
   */
  takeExtra(share: number): HeldLeases {
    const extra = this.size - share;
    const ready: (readonly [number, Held])[] = [];
    this.#inHandOverOrder().forEach(({ shard, held, rank }, nth) => {
      held.isLeaving = nth < extra;
      if (held.isLeaving && rank === 0) ready.push([shard, held]);
    });
    for (const [shard] of ready) this.#shards.delete(shard);
    return this.#leasesOf(ready);
  }

  /** Shards without work in flight first, then shards that are leaving, then the newest. */
  #inHandOverOrder(): { shard: number; held: Held; rank: number }[] {
    const rankOf = (shard: number, { isLeaving }: Held): number => {
      if (!this.#isBusy(shard)) return 0;
      return isLeaving ? 1 : 2;
    };
    return [...this.#shards]
      .map(([shard, held]) => ({ shard, held, rank: rankOf(shard, held) }))
      .reverse()
      .toSorted((a, b) => a.rank - b.rank);
  }

  #leasesOf(shards: readonly (readonly [number, Held])[]): Map<string, bigint> {
    return new Map(shards.map(([shard, { token }]) => [shardLease(this.#name, shard), token]));
  }
}
