import { randomUUID } from 'node:crypto';
import type { BatchObservableCallback } from '@opentelemetry/api';
import type pg from 'pg';
import type { EventBus } from '../bus/event-bus.ts';
import { cachedWithTimeout } from '../cached-with-timeout.ts';
import { listen } from '../listen.ts';
import type { Logger } from '../log.ts';
import { startPartitionKeeper } from '../partitions.ts';
import { createShardHolder, REBALANCE_EVERY_MS, type ShardHolder } from '../shards.ts';
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
  /** How often the outbox is read without a notification (tests). Milliseconds. */
  readonly pollMs?: number;
  /** How long a shard is kept without a renewal (tests). Milliseconds. */
  readonly leaseMs?: number;
}

export interface Relay extends Worker {
  /** Reads the outbox at once. */
  wake(): void;
  /** Resolves when the shards of this process are empty, or when the relay stops. */
  flush(): Promise<void>;
}

const POLL_MS = 2_000;
/** How long a stop waits for the bus. The next process publishes the remaining events. */
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
  /** End the observation of the backlog and of commits. */
  readonly #ends: readonly (() => void)[];
  readonly #flushes = new Flushes();
  #hasShare = false;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(o: RelayOptions) {
    const owner = randomUUID();
    const published = o.telemetry.meter.createCounter('outbox_published_total', {
      description: 'Events given to the event bus.',
    });
    this.#pollMs = o.pollMs ?? POLL_MS;
    this.#publisher = new Publisher({
      ...o,
      onChange: () => this.#loop.wake(),
      onPublished: (count) => published.add(count, { topic: o.topic }),
    });
    this.#shards = createShardHolder({
      ...{ pool: o.pool, owner, name: 'relay', count: SHARDS },
      isBusy: (shard) => this.#publisher.isBusy(shard),
      ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
    });
    const { logger } = o;
    this.#loop = startLoop({
      ...{ name: 'outbox relay', idleMs: this.#pollMs, logger },
      step: () => this.#step(),
    });
    this.#workers = [
      startLoop({
        ...{ name: 'outbox shards', idleMs: REBALANCE_EVERY_MS, logger },
        step: () => this.#rebalance(),
      }),
      listen({ ...o, channelPrefix: CHANNEL_PREFIX, onNotify: (text) => this.#onNotify(text) }),
      startPartitionKeeper({ ...o, table: 'event', owner }),
    ];
    const pools = [o.pool, ...(o.writers ?? [])];
    const relayOwn = (shards: readonly number[]) => this.#relayOwn(shards);
    this.#ends = [observeBacklog(o), ...pools.map((pool) => onCommit(pool, relayOwn))];
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
    for (const end of this.#ends) end();
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
    // Before the first rebalance this process has no shards, so an empty step does not prove an empty outbox.
    const wasComplete = this.#hasShare;
    const isPrompt = this.#flushes.areWanted();
    const isRead = isPrompt || performance.now() >= this.#readAt + this.#pollMs;
    const held = this.#shards.held();
    this.#publisher.assign(held);
    if (isRead) {
      this.#readAt = performance.now();
      this.#publisher.notify(held);
    }
    const restMs = await this.#publisher.step(isPrompt);
    if (isRead && wasComplete && this.#publisher.isEmpty()) this.#flushes.end(step);
    return restMs <= 0 ? 'again' : Math.min(restMs, this.#pollMs);
  }

  async #rebalance(): Promise<number> {
    const before = this.#shards.held().length;
    const restMs = await this.#shards.rebalance();
    this.#hasShare = true;
    if (this.#shards.held().length > before || this.#flushes.areWanted()) this.wake();
    return restMs;
  }

  /** The first notification of a connection has no shard, because earlier ones of any shard may be lost. */
  #onNotify(payload: string): void {
    const shards = shardsNotified(payload);
    if (shards.length === 0) this.wake();
    else if (this.#publisher.notify(shards)) this.#loop.wake();
  }

  /** A transaction of this process appended to these shards. Returns those that this relay publishes. */
  #relayOwn(appended: readonly number[]): readonly number[] {
    this.#publisher.notify(appended);
    this.#loop.wake();
    return this.#shards.held();
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

  areWanted(): boolean {
    return this.#requests.length > 0;
  }

  /** Returns the number of the step. */
  beginStep(): number {
    this.#steps += 1;
    return this.#steps;
  }

  /** A step found the outbox empty. Only a step that began after the request has read everything. */
  end(step: number): void {
    for (const { done, sinceStep } of this.#requests) if (step > sinceStep) done();
    this.#requests = this.#requests.filter(({ sinceStep }) => step <= sinceStep);
  }
}

function observeBacklog(o: RelayOptions): () => void {
  const { meter } = o.telemetry;
  const depth = meter.createObservableGauge('outbox_waiting', {
    description: 'Events not yet given to the event bus; an estimate above 8,000.',
  });
  const age = meter.createObservableGauge('outbox_oldest_age_seconds', {
    description: 'Age of the oldest event not yet given to the event bus.',
    unit: 's',
  });
  const ask = cachedWithTimeout(() => backlogOf(o.pool));
  const observe: BatchObservableCallback = async (result) => {
    const backlog = await ask();
    if (!backlog) return;
    result.observe(depth, backlog.depth, { topic: o.topic });
    result.observe(age, backlog.ageSeconds, { topic: o.topic });
  };
  meter.addBatchObservableCallback(observe, [depth, age]);
  return () => meter.removeBatchObservableCallback(observe, [depth, age]);
}
