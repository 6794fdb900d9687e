import type { EventBus } from '../bus/event-bus.ts';
import type { Logger } from '../log.ts';
import { logSeldom } from '../log-seldom.ts';
import type { Queryable } from '../postgres.ts';
import { GAP_MS } from './announce.ts';
import { OutboxShard, type Sending, type ShardLimits } from './shard.ts';
import { advance } from './store.ts';

/**
 * Reads begin at least so far apart: events that are committed within that time are read, published and
 * delivered together. The first one after a pause does not wait. Milliseconds.
 */
const GATHER_MS = GAP_MS;

/** Many keys fail at once when the bus is unavailable: that is logged once in a while. */
const WARN_EVERY_MS = 5_000;

export interface PublisherOptions {
  readonly pool: Queryable;
  readonly bus: EventBus;
  readonly topic: string;
  readonly logger: Logger;
  /** Something was published or refused: there may be work for `step`. */
  readonly onChange: () => void;
  readonly onPublished: (count: number) => void;
  /** Smaller in tests. */
  readonly limits?: ShardLimits;
}

export interface Publisher {
  /** These shards are ours now. Of other shards only what is in flight is finished and recorded. */
  hold(shards: readonly number[]): void;
  /** Events may have been appended to these shards. Returns whether one of them is ours. */
  notify(shards: readonly number[]): boolean;
  /**
   * Records what is published (`isPrompt`: at once), reads the shards that have something, and sends it.
   * Resolves to the time until it is to be called again at the latest. Milliseconds.
   */
  step(isPrompt: boolean): Promise<number>;
  /** Everything that the shards had is published and recorded. */
  isEmpty(): boolean;
  /** Whether another relay that took the shard now would publish something of it again. */
  isBusy(shard: number): boolean;
  /** Resolves when nothing is in flight. */
  finished(): Promise<void>;
}

/**
 * Moves events from the outbox to the bus, each key on its own: while one key is in flight nothing else
 * of that key is, so order holds. A crash between the acknowledgement and the next statement publishes again.
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
        o.logger.warn({ err: error, topic: o.topic, count }, 'events could not be published'),
      );
      o.onChange();
    }
  }

  async function readNext(isPrompt: boolean): Promise<void> {
    const now = performance.now();
    if (now < nextReadAt && !isPrompt) return;
    const all = [...shards.values()];
    // A statement that is due for one shard records what is published of all.
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
    hold(held) {
      for (const shard of held) {
        if (!shards.has(shard)) shards.set(shard, new OutboxShard(shard, o.limits));
      }
      for (const [number, shard] of shards) {
        shard.hold(held.includes(number), performance.now());
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
