import type { EventBus } from '../bus/event-bus.ts';
import type { Logger } from '../log.ts';
import { logSeldom } from '../log-seldom.ts';
import type { Queryable } from '../postgres.ts';
import { GAP_MS } from './notify.ts';
import { OutboxShard, type Sending, type ShardLimits } from './shard.ts';
import { advance } from './store.ts';

/**
 * Least time between two reads. Events that are committed within that time are read, published and delivered together.
 * The first event after a pause does not wait. Milliseconds.
 */
const GATHER_MS = GAP_MS;

/** Many keys fail at once when the bus is unavailable, so this is logged at most once per interval. */
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

export interface Publisher {
  /** Sets the shards of this relay. Of other shards only events in flight are completed and recorded. */
  assign(shards: readonly number[]): void;
  /** Events may have been appended to these shards. Returns whether this relay has one of them. */
  notify(shards: readonly number[]): boolean;
  /**
   * Records published events (at once if `isPrompt`), reads shards that have new events, and sends them. Resolves to
   * the longest time until the next call. Milliseconds.
   */
  step(isPrompt: boolean): Promise<number>;
  /** Whether all events of the shards are published and recorded. */
  isEmpty(): boolean;
  /** Whether another relay would publish events of the shard again if it took the shard now. */
  isBusy(shard: number): boolean;
  /** Resolves when no send is in flight. */
  finished(): Promise<void>;
}

/**
 * Moves events from the outbox to the bus, each key on its own. A key has one send in flight at a time, so its events
 * stay in order. After a crash between the acknowledgement and the next statement, events are published again.
 */
export function createPublisher(o: PublisherOptions): Publisher {
  const shards = new Map<number, OutboxShard>();
  const inFlight = new Set<Promise<void>>();
  const seldom = logSeldom(WARN_EVERY_MS);
  let nextReadAt = Number.NEGATIVE_INFINITY;

  async function send(shard: OutboxShard, sending: Sending): Promise<void> {
    const records = sending.events.map(({ record }) => record);
    try {
      await o.bus.publish(o.topic, records);
      o.onPublished(records.length);
      if (shard.published(sending, performance.now())) o.onChange();
    } catch (error) {
      shard.refused(sending, performance.now());
      seldom((count) =>
        o.logger.warn({ err: error, topic: o.topic, count }, 'events not published, retrying'),
      );
      o.onChange();
    }
  }

  async function readNext(isPrompt: boolean): Promise<void> {
    const now = performance.now();
    if (now < nextReadAt && !isPrompt) return;
    const all = [...shards.values()];
    // A statement that is due for one shard records the published events of all shards.
    if (!isPrompt && all.every((shard) => shard.nextAt(now) > now)) return;
    const requests = all.flatMap((shard) => shard.request(now) ?? []);
    if (requests.length === 0) return;
    nextReadAt = now + GATHER_MS;
    try {
      for (const page of await advance(o.pool, requests)) {
        const shard = shards.get(page.shard);
        if (!shard) continue;
        for (const sending of shard.take(page, performance.now())) {
          const sent = send(shard, sending).finally(() => inFlight.delete(sent));
          inFlight.add(sent);
        }
      }
    } finally {
      for (const { shard } of requests) shards.get(shard)?.endRequest();
    }
  }

  return {
    assign(held) {
      for (const shard of held) {
        if (!shards.has(shard)) shards.set(shard, new OutboxShard(shard, o.limits));
      }
      for (const [number, shard] of shards) {
        shard.assign(held.includes(number), performance.now());
        if (shard.isOver()) shards.delete(number);
      }
    },
    notify(some) {
      const own = some.flatMap((shard) => shards.get(shard) ?? []);
      for (const shard of own) shard.notify();
      return own.length > 0;
    },
    async step(isPrompt) {
      await readNext(isPrompt);
      const now = performance.now();
      const dueAt = Math.min(...[...shards.values()].map((shard) => shard.nextAt(now)));
      return Math.max(dueAt, nextReadAt) - now;
    },
    isEmpty: () => [...shards.values()].every((shard) => shard.isEmpty()),
    isBusy: (shard) => shards.get(shard)?.isBusy(performance.now()) ?? false,
    async finished() {
      await Promise.all(inFlight);
    },
  };
}
