import { randomUUID } from 'node:crypto';
import type { BatchObservableCallback } from '@opentelemetry/api';
import type pg from 'pg';
import type { EventBus } from '../bus/event-bus.ts';
import { listen } from '../listen.ts';
import type { Logger } from '../log.ts';
import { startPartitionKeeper } from '../partitions.ts';
import { createShardHolder, REBALANCE_EVERY_MS, type ShardHolder } from '../shards.ts';
import { sharedWithTimeout } from '../shared-with-timeout.ts';
import type { Telemetry } from '../telemetry.ts';
import { within } from '../within.ts';
import { startLoop, type Worker } from '../worker.ts';
import { SHARDS } from './append.ts';
import { CHANNEL_PREFIX, onCommit, shardsNotified } from './notify.ts';
import { Publisher } from './publisher.ts';
import { backlogOf } from './store.ts';

export interface RelayOptions {
  readonly pool: pg.Pool;
  /** Further pools to the same database whose commits are relayed. */
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
  /** Reads the outbox immediately. */
  wake(): void;
  /** Resolves when the shards of this process are empty, or when the relay stops. */
  flush(): Promise<void>;
}

/** Commits notify the relay. This finds events whose notification was lost. */
const POLL_MS = 5_000;
/** A stop waits this long for the bus. The next process publishes the remaining events. */
const STOP_MS = 3_000;

/**
 * Publishes the events that transactions append to the outbox: at least once, in order per key. Replicas share the
 * shards. Events that the bus does not accept wait in the table; their number and age are metrics.
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
  /** Functions that end the metrics of the backlog and the notifications of commits. */
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
    // Without shards the step only records published events.
    this.#publisher.assign([]);
    await this.#publisher.step(true);
    await this.#shards.release();
    this.#flushes.end(Number.POSITIVE_INFINITY);
  }

  async #step(): Promise<'again' | number> {
    const step = this.#flushes.beginStep();
    // Before the first rebalance this process owns no shards, so a step without events does not prove an empty outbox.
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

  /** Handles a notification. A new connection sends one without a shard, because earlier notifications may be lost. */
  #onNotify(payload: string): void {
    const shards = shardsNotified(payload);
    if (shards.length === 0) this.wake();
    else if (this.#publisher.notify(shards)) this.#loop.wake();
  }

  /** Handles a commit of this process that appended to these shards. Returns the shards that this relay owns. */
  #relayOwn(appended: readonly number[]): readonly number[] {
    this.#publisher.notify(appended);
    this.#loop.wake();
    return this.#shards.owned();
  }
}

/** Callers that wait until the outbox is empty. */
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

  /** Returns the number of the step. */
  beginStep(): number {
    this.#steps += 1;
    return this.#steps;
  }

  /** Ends requests after a step that found the outbox empty. The step must have begun after the request. */
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
