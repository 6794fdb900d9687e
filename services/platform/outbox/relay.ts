import { randomUUID } from 'node:crypto';
import type { BatchObservableCallback } from '@opentelemetry/api';
import type pg from 'pg';
import type { EventBus } from '../bus/event-bus.ts';
import { createShardHolder, REBALANCE_EVERY_MS, type ShardHolder } from '../leases/shards.ts';
import { listen } from '../postgres/listen.ts';
import { startPartitionKeeper } from '../postgres/partitions.ts';
import type { Queryable } from '../postgres/postgres.ts';
import { sharedWithTimeout } from '../postgres/shared-with-timeout.ts';
import { within } from '../process/within.ts';
import { startLoop, type Worker } from '../process/worker.ts';
import type { Logger } from '../telemetry/log.ts';
import { logSeldom } from '../telemetry/log-seldom.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { SHARDS } from './append.ts';
import { CHANNEL_PREFIX, GAP_MS, onCommit, shardsNotified } from './notify.ts';
import { OutboxShard, type Sending, type ShardLimits } from './shard.ts';
import { advance, backlogOf } from './store.ts';

interface RelayOptions {
  readonly pool: pg.Pool;
  /** Additional pools to the same database whose commits notify this relay. */
  readonly writers?: readonly pg.Pool[];
  readonly bus: EventBus;
  readonly topic: string;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** How long published events are kept for a replay. Days. */
  readonly retentionDays: number;
  /** Maximum time between two reads of the outbox (tests). Milliseconds. */
  readonly pollMs?: number;
  /** Length of the lease of this process (tests). Milliseconds. */
  readonly leaseMs?: number;
}

export interface Relay extends Worker {
  /** Makes the relay read the outbox immediately. */
  wake(): void;
  /** Resolves when all events of this process's shards are published, or when the relay stops. */
  flush(): Promise<void>;
}

/**
 * How often the outbox is read without a notification. Commits notify the relay, but notifications may be lost.
 * Milliseconds.
 */
const POLL_MS = 5_000;
/** How long a stop waits for the bus. After it, another process publishes the events that are left. Milliseconds. */
const STOP_MS = 3_000;

/**
 * Starts the relay. It publishes the events that transactions append to the outbox: at least once, and in order within
 * each key. Replicas share the shards. Events that the bus does not accept wait in the table. Their number and age are
 * metrics.
 */
export function startRelay(o: RelayOptions): Relay {
  return new OutboxRelay(o);
}

class OutboxRelay implements Relay {
  readonly #pollMs: number;
  readonly #publisher: Publisher;
  readonly #shards: ShardHolder;
  readonly #loop: Worker & { wake(): void };
  readonly #workers: readonly Worker[];
  /** Functions that end the metrics and the listeners of this relay. */
  readonly #unsubscribes: readonly (() => void)[];
  readonly #flushes = new Flushes();
  #hasShare = false;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(o: RelayOptions) {
    const owner = randomUUID();
    const published = o.telemetry.meter.createCounter('outbox_published_total', {
      description: 'Events that the relay has published to the event bus.',
    });
    this.#pollMs = o.pollMs ?? POLL_MS;
    this.#publisher = new Publisher({
      ...o,
      onChange: () => this.#loop.wake(),
      onPublished: (count) => published.add(count, { topic: o.topic }),
    });
    this.#shards = createShardHolder({
      pool: o.pool,
      owner,
      name: 'relay',
      count: SHARDS,
      isBusy: (shard) => this.#publisher.isBusy(shard),
      ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
    });
    const { logger } = o;
    this.#loop = startLoop({
      name: 'outbox relay',
      idleMs: this.#pollMs,
      logger,
      step: () => this.#step(),
    });
    this.#workers = [
      startLoop({
        name: 'outbox shards',
        idleMs: REBALANCE_EVERY_MS,
        logger,
        step: () => this.#rebalance(),
      }),
      listen({ ...o, channelPrefix: CHANNEL_PREFIX, onNotify: (text) => this.#onNotify(text) }),
      startPartitionKeeper({ ...o, table: 'event', owner }),
    ];
    const pools = [o.pool, ...(o.writers ?? [])];
    const relayOwn = (shards: readonly number[]) => this.#relayOwn(shards);
    this.#unsubscribes = [observeBacklog(o), ...pools.map((pool) => onCommit(pool, relayOwn))];
  }

  wake(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
    this.#loop.wake();
  }

  flush(): Promise<void> {
    const flushed = this.#flushes.request();
    this.#loop.wake();
    return flushed;
  }

  async stop(): Promise<void> {
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
    await Promise.all([this.#loop.stop(), ...this.#workers.map((worker) => worker.stop())]);
    await within(STOP_MS, this.#publisher.finished());
    // Without shards, this step only records published events.
    this.#publisher.assign([]);
    await this.#publisher.step(true);
    await this.#shards.release();
    this.#flushes.end(Number.POSITIVE_INFINITY);
  }

  async #step(): Promise<'again' | number> {
    const step = this.#flushes.beginStep();
    // Before its first rebalance this process owns no shards. A step that finds no event then does not prove that the
    // outbox is empty.
    const wasComplete = this.#hasShare;
    const isPrompt = this.#flushes.arePending();
    const isRead = isPrompt || performance.now() >= this.#readAt + this.#pollMs;
    const owned = this.#shards.owned();
    this.#publisher.assign(owned);
    if (isRead) {
      this.#readAt = performance.now();
      this.#publisher.notify(owned);
    }
    const restMs = await this.#publisher.step(isPrompt);
    if (isRead && wasComplete && this.#publisher.isEmpty()) this.#flushes.end(step);
    return restMs <= 0 ? 'again' : Math.min(restMs, this.#pollMs);
  }

  async #rebalance(): Promise<number> {
    const before = this.#shards.owned().length;
    const restMs = await this.#shards.rebalance();
    this.#hasShare = true;
    if (this.#shards.owned().length > before || this.#flushes.arePending()) this.wake();
    return restMs;
  }

  /** Handles a notification. Each new connection causes one without a shard, because earlier ones may be lost. */
  #onNotify(payload: string): void {
    const shards = shardsNotified(payload);
    if (shards.length === 0) this.wake();
    else if (this.#publisher.notify(shards)) this.#loop.wake();
  }

  /**
   * Handles a commit of this process that appended events to these shards. Returns those of them that this relay owns.
   */
  #relayOwn(appended: readonly number[]): readonly number[] {
    this.#publisher.notify(appended);
    this.#loop.wake();
    return this.#shards.owned();
  }
}

/** The callers of `flush`, who wait until the outbox is empty. */
class Flushes {
  #requests: { readonly done: () => void; readonly sinceStep: number }[] = [];
  #steps = 0;

  request(): Promise<void> {
    return new Promise((done) => {
      this.#requests.push({ done, sinceStep: this.#steps });
    });
  }

  arePending(): boolean {
    return this.#requests.length > 0;
  }

  /** Begins a step. Returns its number. */
  beginStep(): number {
    this.#steps += 1;
    return this.#steps;
  }

  /**
   * Resolves the waiting calls after a step that found the outbox empty. Only a step that began after a call counts for
   * it.
   */
  end(step: number): void {
    for (const { done, sinceStep } of this.#requests) if (step > sinceStep) done();
    this.#requests = this.#requests.filter(({ sinceStep }) => step <= sinceStep);
  }
}

function observeBacklog(o: RelayOptions): () => void {
  const { meter } = o.telemetry;
  const depth = meter.createObservableGauge('outbox_waiting', {
    description: 'Events that are not published to the event bus yet; an estimate above 8,000.',
  });
  const age = meter.createObservableGauge('outbox_oldest_age_seconds', {
    description: 'Age of the oldest event that is not published to the event bus yet.',
    unit: 's',
  });
  const readBacklog = sharedWithTimeout(() => backlogOf(o.pool));
  const observe: BatchObservableCallback = async (result) => {
    const backlog = await readBacklog();
    if (!backlog) return;
    result.observe(depth, backlog.depth, { topic: o.topic });
    result.observe(age, backlog.ageSeconds, { topic: o.topic });
  };
  meter.addBatchObservableCallback(observe, [depth, age]);
  return () => meter.removeBatchObservableCallback(observe, [depth, age]);
}

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

interface PublisherOptions {
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
