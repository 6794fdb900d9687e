import type { EventBus } from '../bus/event-bus.ts';
import type { Logger } from '../log.ts';
import { logSeldom } from '../log-seldom.ts';
import type { Queryable } from '../postgres.ts';
import { GAP_MS } from './notify.ts';
import { OutboxShard, type Sending, type ShardLimits } from './shard.ts';
import { advance } from './store.ts';

/**
 * Minimum time between two reads. Events that are committed in this time are read and published together. The first
 * event after a pause does not wait. Milliseconds.
 */
const GATHER_MS = GAP_MS;

/**
 * Minimum time between two log lines about failures. When the bus is unavailable, many keys fail together.
 * Milliseconds.
 */
const WARN_EVERY_MS = 5_000;

export interface PublisherOptions {
  readonly pool: Queryable;
  readonly bus: EventBus;
  readonly topic: string;
  readonly logger: Logger;
  /** Called after the bus has acknowledged or rejected events, because `step` may then have work. */
  readonly onChange: () => void;
  readonly onPublished: (count: number) => void;
  /** Limits that are lower than the default, for tests. */
  readonly limits?: ShardLimits;
}

/**
 * Publishes events from the outbox to the bus. A key has at most one send in flight, so its events stay in order. After
 * a crash between an acknowledgement and the statement that records it, events are published again.
 */
export class Publisher {
  readonly #o: PublisherOptions;
  readonly #shards = new Map<number, OutboxShard>();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #seldom = logSeldom(WARN_EVERY_MS);
  #nextReadAt = Number.NEGATIVE_INFINITY;

  constructor(o: PublisherOptions) {
    this.#o = o;
  }

  /** Sets the shards that this relay owns. For other shards it only completes the sends in flight and records them. */
  assign(owned: readonly number[]): void {
    for (const shard of owned) {
      if (!this.#shards.has(shard)) this.#shards.set(shard, new OutboxShard(shard, this.#o.limits));
    }
    for (const [number, shard] of this.#shards) {
      shard.assign(owned.includes(number), performance.now());
      if (shard.isDone()) this.#shards.delete(number);
    }
  }

  /** Notes that these shards may have new events. Returns whether this relay owns at least one of them. */
  notify(shards: readonly number[]): boolean {
    const own = shards.flatMap((shard) => this.#shards.get(shard) ?? []);
    for (const shard of own) shard.notify();
    return own.length > 0;
  }

  /**
   * Records published events (at once when `isPrompt`), reads shards that have new events, and sends these events.
   * Resolves to the time after which it must be called again. Milliseconds.
   */
  async step(isPrompt: boolean): Promise<number> {
    await this.#advance(isPrompt);
    const now = performance.now();
    const dueAt = Math.min(...[...this.#shards.values()].map((shard) => shard.nextAt(now)));
    return Math.max(dueAt, this.#nextReadAt) - now;
  }

  /** Whether all events of these shards are published and recorded. */
  isEmpty(): boolean {
    return [...this.#shards.values()].every((shard) => shard.isEmpty());
  }

  /** Whether another relay that took the shard now would publish some of its events again. */
  isBusy(shard: number): boolean {
    return this.#shards.get(shard)?.isBusy(performance.now()) ?? false;
  }

  /** Resolves when no send is in flight. */
  async finished(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  /** Records published events, reads the next pages, and sends them. */
  async #advance(isPrompt: boolean): Promise<void> {
    const now = performance.now();
    if (now < this.#nextReadAt && !isPrompt) return;
    const all = [...this.#shards.values()];
    // When a statement is due for one shard, it also records the published events of all others.
    if (!isPrompt && all.every((shard) => shard.nextAt(now) > now)) return;
    const requests = all.flatMap((shard) => shard.request(now) ?? []);
    if (requests.length === 0) return;
    this.#nextReadAt = now + GATHER_MS;
    try {
      for (const page of await advance(this.#o.pool, requests)) {
        const shard = this.#shards.get(page.shard);
        if (!shard) continue;
        for (const sending of shard.take(page, performance.now())) {
          const sent = this.#send(shard, sending).finally(() => this.#inFlight.delete(sent));
          this.#inFlight.add(sent);
        }
      }
    } finally {
      for (const { shard } of requests) this.#shards.get(shard)?.endRequest();
    }
  }

  async #send(shard: OutboxShard, sending: Sending): Promise<void> {
    const o = this.#o;
    const records = sending.events.map(({ record }) => record);
    try {
      await o.bus.publish(o.topic, records);
      o.onPublished(records.length);
      if (shard.published(sending, performance.now())) o.onChange();
    } catch (error) {
      shard.rejected(sending, performance.now());
      this.#seldom((count) =>
        o.logger.warn({ err: error, topic: o.topic, count }, 'events not published, retrying'),
      );
      o.onChange();
    }
  }
}
