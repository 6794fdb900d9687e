import type { EventBus } from '../bus/event-bus.ts';
import type { Logger } from '../log.ts';
import { logSeldom } from '../log-seldom.ts';
import type { Queryable } from '../postgres.ts';
import { GAP_MS } from './notify.ts';
import { OutboxShard, type Sending, type ShardLimits } from './shard.ts';
import { advance } from './store.ts';

/**
 * Minimum time between two reads. Events that are committed within that time are read and published together. The first
 * event after a pause does not wait. Milliseconds.
 */
const GATHER_MS = GAP_MS;

/** Many keys fail together when the bus is unavailable, so failures are logged at most once per interval. */
const WARN_EVERY_MS = 5_000;

export interface PublisherOptions {
  readonly pool: Queryable;
  readonly bus: EventBus;
  readonly topic: string;
  readonly logger: Logger;
  /** Called after events were published or rejected by the bus: `step` may have work. */
  readonly onChange: () => void;
  readonly onPublished: (count: number) => void;
  /** Lower limits in tests. */
  readonly limits?: ShardLimits;
}

/**
 * Publishes events from the outbox to the bus. A key has one send in flight at a time, so its events stay in order. After
 * a crash between the acknowledgement and the next statement, events are published again.
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

  /** Sets the shards of this relay. For other shards it only completes and records events in flight. */
  assign(owned: readonly number[]): void {
    for (const shard of owned) {
      if (!this.#shards.has(shard)) this.#shards.set(shard, new OutboxShard(shard, this.#o.limits));
    }
    for (const [number, shard] of this.#shards) {
      shard.assign(owned.includes(number), performance.now());
      if (shard.isDone()) this.#shards.delete(number);
    }
  }

  /** Notes that these shards may have new events. Returns whether this relay owns one of them. */
  notify(shards: readonly number[]): boolean {
    const own = shards.flatMap((shard) => this.#shards.get(shard) ?? []);
    for (const shard of own) shard.notify();
    return own.length > 0;
  }

  /**
   * Records published events (immediately if `isPrompt`), reads shards that have new events, and sends the events.
   * Resolves to the time after which it must be called again. Milliseconds.
   */
  async step(isPrompt: boolean): Promise<number> {
    await this.#advance(isPrompt);
    const now = performance.now();
    const dueAt = Math.min(...[...this.#shards.values()].map((shard) => shard.nextAt(now)));
    return Math.max(dueAt, this.#nextReadAt) - now;
  }

  /** Whether all events of the shards are published and recorded. */
  isEmpty(): boolean {
    return [...this.#shards.values()].every((shard) => shard.isEmpty());
  }

  /** Whether another relay would publish events of the shard again if it took the shard now. */
  isBusy(shard: number): boolean {
    return this.#shards.get(shard)?.isBusy(performance.now()) ?? false;
  }

  /** Resolves when no send is in flight. */
  async finished(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  /** Records what is published, reads the next pages, and sends them. */
  async #advance(isPrompt: boolean): Promise<void> {
    const now = performance.now();
    if (now < this.#nextReadAt && !isPrompt) return;
    const all = [...this.#shards.values()];
    // A statement that is due for one shard records the published events of all shards.
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
