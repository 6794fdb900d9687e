import { randomUUID } from 'node:crypto';
import type { BatchObservableCallback } from '@opentelemetry/api';
import type pg from 'pg';
import { askedInTime } from '../asked-in-time.ts';
import type { EventBus } from '../bus/event-bus.ts';
import { listen } from '../listen.ts';
import type { Logger } from '../log.ts';
import { startPartitionKeeper } from '../partitions.ts';
import { createShardHolder, REBALANCE_EVERY_MS } from '../shards.ts';
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
  const owner = randomUUID();
  const pollMs = o.pollMs ?? POLL_MS;
  const published = o.telemetry.meter.createCounter('outbox_published_total', {
    description: 'Events given to the event bus.',
  });
  const publisher = new Publisher({
    ...o,
    onChange: () => loop.wake(),
    onPublished: (count) => published.add(count, { topic: o.topic }),
  });
  const shards = createShardHolder({
    ...{
      pool: o.pool,
      owner,
      name: 'relay',
      count: SHARDS,
      isBusy: (shard) => publisher.isBusy(shard),
    },
    ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
  });
  let flushers: { done: () => void; sinceStep: number }[] = [];
  let steps = 0;
  let hasShare = false;
  let readAt = Number.NEGATIVE_INFINITY;

  const wake = (): void => {
    readAt = Number.NEGATIVE_INFINITY;
    loop.wake();
  };

  const loop = startLoop({
    name: 'outbox relay',
    idleMs: pollMs,
    logger: o.logger,
    step: async () => {
      steps += 1;
      // Before the first rebalance this process has no shards, so an empty step does not prove an empty outbox.
      const wasComplete = hasShare;
      const isPrompt = flushers.length > 0;
      const isRead = isPrompt || performance.now() >= readAt + pollMs;
      publisher.assign(shards.held());
      if (isRead) {
        readAt = performance.now();
        publisher.notify(shards.held());
      }
      const restMs = await publisher.step(isPrompt);
      if (isRead && wasComplete && publisher.isEmpty()) endFlushes(steps);
      return restMs <= 0 ? 'again' : Math.min(restMs, pollMs);
    },
  });

  /** The first notification of a connection has no shard, because earlier ones of any shard may be lost. */
  function onNotify(payload: string): void {
    const shardsWithEvents = shardsNotified(payload);
    if (shardsWithEvents.length === 0) wake();
    else if (publisher.notify(shardsWithEvents)) loop.wake();
  }

  const rebalancing = startLoop({
    name: 'outbox shards',
    idleMs: REBALANCE_EVERY_MS,
    logger: o.logger,
    step: async () => {
      const before = shards.held().length;
      const restMs = await shards.rebalance();
      hasShare = true;
      if (shards.held().length > before || flushers.length > 0) wake();
      return restMs;
    },
  });
  const workers = [
    rebalancing,
    listen({ ...o, channelPrefix: CHANNEL_PREFIX, onNotify }),
    startPartitionKeeper({ ...o, table: 'event', owner }),
  ];
  const unobserve = observeBacklog(o);
  const relayOwn = (appended: readonly number[]): readonly number[] => {
    publisher.notify(appended);
    loop.wake();
    return shards.held();
  };
  const unsubscribe = [o.pool, ...(o.writers ?? [])].map((pool) => onCommit(pool, relayOwn));

  /** Only a step that began after the flush request has read everything. */
  function endFlushes(step: number): void {
    for (const { done } of flushers.filter(({ sinceStep }) => step > sinceStep)) done();
    flushers = flushers.filter(({ sinceStep }) => step <= sinceStep);
  }

  return {
    wake,
    flush: () =>
      new Promise((done) => {
        flushers.push({ done, sinceStep: steps });
        loop.wake();
      }),
    async stop() {
      unobserve();
      for (const end of unsubscribe) end();
      await Promise.all([loop.stop(), ...workers.map((worker) => worker.stop())]);
      await within(STOP_MS, publisher.finished());
      // Without shards the step only records published events.
      publisher.assign([]);
      await publisher.step(true);
      await shards.release();
      endFlushes(Number.POSITIVE_INFINITY);
    },
  };
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
  const ask = askedInTime(() => backlogOf(o.pool));
  const observe: BatchObservableCallback = async (result) => {
    const backlog = await ask();
    if (!backlog) return;
    result.observe(depth, backlog.depth, { topic: o.topic });
    result.observe(age, backlog.ageSeconds, { topic: o.topic });
  };
  meter.addBatchObservableCallback(observe, [depth, age]);
  return () => meter.removeBatchObservableCallback(observe, [depth, age]);
}
