import type pg from 'pg';
import type { EventBus } from '../bus/event-bus.ts';
import type { Logger } from '../log.ts';
import { deletePointers, type Pointer, type StoredEvent, waitingEvents } from './store.ts';

/** Records given to the bus and not yet acknowledged. */
const MAX_IN_FLIGHT = 2_000;
/** Rows read from one shard at a time. */
const PAGE = 250;
const FIRST_BACKOFF_MS = 200;
const MAX_BACKOFF_MS = 5_000;

export interface PublisherOptions {
  readonly pool: pg.Pool;
  readonly bus: EventBus;
  readonly topic: string;
  readonly logger: Logger;
  /** Something was acknowledged or failed: there is work for `step`. */
  readonly onChange: () => void;
  readonly onPublished: (count: number) => void;
}

export interface Publisher {
  /** Forgets what the bus has, then gives it more. Says how much it did. */
  step(shards: readonly number[]): Promise<number>;
  /** Nothing is on its way and nothing waits to be forgotten. */
  isIdle(): boolean;
  /** Whether the bus refused something lately, so that nothing is given to it for a while. */
  isPausing(): boolean;
  /** Resolves when everything on its way is acknowledged or refused. */
  settled(): Promise<void>;
}

/**
 * Moves rows from the outbox to the bus, each key on its own: while one key is on its way nothing
 * else of that key is, so order holds, and a key that takes long holds up no other. A pointer is
 * deleted only after the bus has acknowledged; a crash between the two publishes the event again.
 */
export function createPublisher(o: PublisherOptions): Publisher {
  const inFlight = new Map<string, Promise<void>>();
  let records = 0;
  const acknowledged: { key: string; pointers: readonly Pointer[] }[] = [];
  let failures = 0;
  let pausedUntil = 0;

  function release(key: string, count: number): void {
    inFlight.delete(key);
    records -= count;
  }

  async function forget(): Promise<number> {
    const done = [...acknowledged];
    if (done.length === 0) return 0;
    await deletePointers(
      o.pool,
      done.flatMap(({ pointers }) => pointers),
    );
    acknowledged.splice(0, done.length);
    for (const { key, pointers } of done) release(key, pointers.length);
    return done.length;
  }

  async function publish(key: string, events: readonly StoredEvent[]): Promise<void> {
    try {
      await o.bus.publish(
        o.topic,
        events.map((event) => event.record),
      );
      acknowledged.push({ key, pointers: events });
      failures = 0;
      o.onPublished(events.length);
    } catch (error) {
      release(key, events.length);
      pause(error);
    }
    o.onChange();
  }

  /** Many keys fail at once when the bus is away: that counts as one failure, and is logged once. */
  function pause(error: unknown): void {
    if (Date.now() < pausedUntil) return;
    failures += 1;
    const ceiling = Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
    pausedUntil = Date.now() + ceiling * (0.75 + Math.random() / 4);
    o.logger.warn({ err: error, topic: o.topic, failures }, 'events could not be published');
  }

  return {
    async step(shards) {
      const forgotten = await forget();
      const room = MAX_IN_FLIGHT - records;
      if (shards.length === 0 || room <= 0 || Date.now() < pausedUntil) return forgotten;
      const limit = Math.min(PAGE, Math.ceil(room / shards.length));
      const exceptKeys = [...inFlight.keys()];
      const events = await waitingEvents(o.pool, { shards, exceptKeys, limit });
      for (const [key, ofKey] of byKey(events)) {
        records += ofKey.length;
        inFlight.set(key, publish(key, ofKey));
      }
      return forgotten + events.length;
    },
    isIdle: () => inFlight.size === 0,
    isPausing: () => Date.now() < pausedUntil,
    async settled() {
      await Promise.all(inFlight.values());
    },
  };
}

function byKey(events: readonly StoredEvent[]): Map<string, StoredEvent[]> {
  const groups = new Map<string, StoredEvent[]>();
  for (const event of events) {
    const group = groups.get(event.record.key);
    if (group) group.push(event);
    else groups.set(event.record.key, [event]);
  }
  return groups;
}
