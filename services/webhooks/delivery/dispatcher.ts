import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { listen } from '../../platform/listen.ts';
import type { Logger } from '../../platform/log.ts';
import { createShardHolder, REBALANCE_EVERY_MS } from '../../platform/shards.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import type { AttemptOptions } from './attempt/attempt.ts';
import type { RetryClock } from './attempt/retry-clock.ts';
import { DUE_CHANNEL_PREFIX, parseNotification } from './queue/notify.ts';
import { createQueueLoader } from './queue/queue-loader.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, type QueueRef, queueKeyOf } from './queue/queue-ref.ts';
import { type DeliveryMetrics, deliveryMetrics } from './results/metrics.ts';
import type { AttemptResult, WrittenResults } from './results/write-results.ts';
import { createActiveQueues } from './scheduler/active-queues.ts';
import { createInFlightAttempts } from './scheduler/in-flight.ts';
import { createScheduler } from './scheduler/scheduler.ts';
import { createShopBytes } from './scheduler/shop-bytes.ts';
import { startWakeLoop } from './scheduler/wake-loop.ts';

export interface DispatcherOptions extends AttemptOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly clock: RetryClock;
  /** Capacity for attempts in this process; when endpoints hang, up to twice as many are open. */
  readonly concurrency: number;
  /** What the requests of one shop may hold in a minute. */
  readonly shopBytesPerMinute: number;
  /** The clock of those minutes (tests). Milliseconds. */
  readonly shopBytesNow?: () => number;
  /** How long a shard is kept without a sign of life (tests). Milliseconds. */
  readonly leaseMs?: number;
}

export interface Dispatcher extends Worker {
  /** Something is due: in these queues, or in any. */
  wake(queues?: readonly QueueRef[]): void;
  /** Real time, as the database keeps it: a wall clock that jumps does not move it. */
  now(): Date;
  /** Whether this process sends for the shard. */
  holds(shard: number): boolean;
}

/** Requests that end close together are followed by one reading. Milliseconds. */
const PACE_MS = 4;
/** What a stop waits for: the longest attempt, then the writing. Milliseconds. */
const STOP = { attemptsMs: 16_500, writeMs: 2_500 };

/**
 * Sends what is due, until stopped; `stop` waits for the attempts in flight, and gives back at once the
 * shards that have none.
 *
 * Replicas share the shards, and with them the endpoints, so that one process counts all that an
 * endpoint has in flight. A step reads what there is room for. Attempts run on their own: no endpoint
 * waits for another's. What became of them is written in batches.
 */
export function startDispatcher(o: DispatcherOptions): Dispatcher {
  const inFlight = createInFlightAttempts();
  const active = createActiveQueues();
  const shards = createShardHolder({
    pool: o.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    isBusy: (shard) => inFlight.ofShard(shard) > 0,
    ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
  });
  const metrics = deliveryMetrics(o.telemetry.meter, {
    inFlight: () => inFlight.size(),
    queues: () => active.queues.size,
    shopsWaiting: () => shopBytes.waiting(),
    oldestResultMs: () => scheduler.oldestResultMs(),
  });
  const shopBytes = createShopBytes({
    perMinute: o.shopBytesPerMinute,
    ...(o.shopBytesNow && { now: o.shopBytesNow }),
    share: () => shards.held().length / DELIVERY_SHARDS,
    onUsedUp(shopId) {
      metrics.bytesUsedUp();
      o.logger.warn({ shop: shopId }, 'bytes of the minute used up: the shop waits');
    },
  });
  const loader = createQueueLoader({
    ...o,
    active,
    inFlight,
    shards,
    onReset: (endpoint) => scheduler.reset(endpoint),
    onWork: () => wakeLoop.wake(),
  });
  const scheduler = createScheduler({
    ...o,
    active,
    inFlight,
    shards,
    offsetMs: o.clock.offsetMs,
    retryNowMs: loader.retryNowMs,
    shopBytes,
    onWait: loader.postpone,
    onClosed: loader.release,
    onRoom: () => wakeLoop.wake(PACE_MS),
    onPutOff: metrics.putOff,
    onWritten: (batch, written) => report(o, metrics, batch, written),
  });
  const wakeLoop = startWakeLoop({
    name: 'dispatch',
    logger: o.logger,
    async step() {
      inFlight.markSlow(performance.now());
      await loader.load();
      await scheduler.take();
      return loader.unload();
    },
  });
  const tending = startLoop({
    name: 'delivery shards',
    idleMs: REBALANCE_EVERY_MS,
    logger: o.logger,
    async step() {
      const before = shards.held().join();
      const restMs = await shards.rebalance();
      if (shards.held().join() !== before) wakeLoop.wake();
      return restMs;
    },
  });
  const listening = listen({
    pool: o.pool,
    logger: o.logger,
    channelPrefix: DUE_CHANNEL_PREFIX,
    onNotify: (payload) => loader.notify(parseNotification(payload)),
  });

  return {
    wake: (queues = []) => loader.notify({ keys: queues.map(queueKeyOf), isChange: false }),
    now: () => new Date(loader.retryNowMs() - o.clock.offsetMs()),
    holds: (shard) => shards.tokenOf(shard) !== undefined,
    async stop() {
      shards.drain();
      await Promise.all([wakeLoop.stop(), listening.stop()]);
      tending.wake();
      await scheduler.drain(STOP);
      await tending.stop();
      await shards.release();
    },
  };
}

function report(
  o: DispatcherOptions,
  metrics: DeliveryMetrics,
  batch: readonly AttemptResult[],
  { stale, notices }: WrittenResults,
): void {
  metrics.written(batch, o.clock.offsetMs());
  if (stale.length > 0) {
    metrics.stale(stale.length);
    o.logger.warn({ attempts: stale.length }, 'the lease was lost before the attempts ended');
  }
  for (const { kind, percent, shopId, subscriptionId } of notices) {
    const about = { shop: shopId, subscription: subscriptionId, percent };
    if (kind === 'disabled') o.logger.warn(about, 'subscription set inactive: it only failed');
    else o.logger.warn(about, 'subscription fails: it will be set inactive');
    metrics.noticed(kind, percent);
  }
}
