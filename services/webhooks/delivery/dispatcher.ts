import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { createShardHolder, REBALANCE_EVERY_MS } from '../../platform/leases/shards.ts';
import { listen } from '../../platform/postgres/listen.ts';
import { createLoop, startLoop, type Worker } from '../../platform/process/worker.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import type { RetryClock } from './attempt/retry-schedule.ts';
import { type AttemptOptions, AttemptRunner } from './attempt/runner.ts';
import { createHealthChanges } from './endpoint/health-changes.ts';
import { type HoldOptions, NetworkHolds } from './endpoint/network-holds.ts';
import type { DatabaseClock } from './queue/database-clock.ts';
import { DUE_CHANNEL_PREFIX, parseNotification } from './queue/notify.ts';
import { QueueLoader } from './queue/queue-loader.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, type QueueRef, queueKeyOf } from './queue/queue-ref.ts';
import type { FreshDeliveries } from './queue/targets.ts';
import type { AttemptResult } from './results/attempt-result.ts';
import { type DeliveryMetrics, deliveryMetrics, observeDelivery } from './results/metrics.ts';
import { ResultWriter } from './results/result-writer.ts';
import type { WrittenResults } from './results/write-results.ts';
import { ActiveQueues } from './scheduler/active-queues.ts';
import { InFlightAttempts } from './scheduler/in-flight.ts';
import { Scheduler } from './scheduler/scheduler.ts';
import { createShopBytes } from './scheduler/shop-bytes.ts';

export interface DispatcherOptions extends AttemptOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly clock: RetryClock;
  readonly databaseClock: DatabaseClock;
  /** The limit that {@link AttemptOptions.send} has for receivers that have never answered 2xx. */
  readonly limit: HoldOptions['limit'];
  /** Maximum number of attempts in flight in this process. Up to twice as many are open when endpoints hang. */
  readonly concurrency: number;
  /** Maximum number of bytes that requests of one shop may send in a minute, over all processes. */
  readonly shopBytesPerMinute: number;
  /** The clock of these minutes (tests). Milliseconds. */
  readonly shopBytesNow?: () => number;
  /** Length of the lease of this process (tests). Milliseconds. */
  readonly leaseMs?: number;
}

export interface Dispatcher {
  /** Starts to send due deliveries. */
  start(): Worker;
  /** Must be called when queues have due work. Without an argument, any queue may have due work. */
  wake(queues?: readonly QueueRef[]): void;
  /**
   * Must be called when deliveries were committed in these queues. The `fresh` ones need not be read from the table.
   */
  committed(queues: readonly QueueRef[], fresh: readonly FreshDeliveries[]): void;
  /** The shards for which this process sends deliveries; none before the start. */
  ownedShards(): readonly number[];
}

/**
 * Log line about results that this process cannot record. The new owner of the shard repeats the attempts. The fault
 * suite counts this line.
 */
export const RESULTS_NOT_RECORDED = 'results not recorded: lease of the shard lost';

/** Minimum time between two steps of the loop, which is woken thousands of times a second. Milliseconds. */
const GAP_MS = 2;

/** Maximum times of a stop: for attempts in flight, and then for their results. Milliseconds. */
const STOP = { attemptsMs: 16_500, resultsMs: 2_500 };

/**
 * Creates the part of a process that sends due deliveries. Replicas divide the shards. A shard has whole endpoints, so
 * that one process counts all attempts in flight of an endpoint.
 */
export function createDispatcher(o: DispatcherOptions): Dispatcher {
  const parts = createParts(o);
  const { loader, shards } = parts;
  return {
    start: () => startLoops(o, parts),
    wake: (queues = []) => loader.notify({ keys: queues.map(queueKeyOf), isChange: false }),
    committed(queues, fresh) {
      const withFresh = new Set(fresh.map(({ target }) => target.key));
      const toRead = queues.map(queueKeyOf).filter((key) => !withFresh.has(key));
      if (toRead.length > 0) loader.notify({ keys: toRead, isChange: false });
      if (fresh.length > 0) loader.addFresh(fresh);
    },
    ownedShards: () => shards.owned(),
  };
}

function createParts(o: DispatcherOptions) {
  const { meter } = o.telemetry;
  const { offsetMs } = o.clock;
  const metrics = deliveryMetrics(meter);
  const active = new ActiveQueues();
  const inFlight = new InFlightAttempts();
  const healthChanges = createHealthChanges();
  const wakeLoop = createLoop({ name: 'dispatch', logger: o.logger, gapMs: GAP_MS });
  const shards = createShardHolder({
    pool: o.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    isBusy: (shard) => inFlight.ofShard(shard) > 0,
    ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
  });
  const shopBytes = createShopBytes({
    perMinute: o.shopBytesPerMinute,
    ...(o.shopBytesNow && { now: o.shopBytesNow }),
    share: () => shards.owned().length / DELIVERY_SHARDS,
    onLimitReached(shopId) {
      metrics.byteLimitReached();
      o.logger.warn({ shop: shopId }, 'byte limit of the minute reached, shop throttled');
    },
  });
  const results = new ResultWriter({
    ...o,
    offsetMs,
    healthChanges,
    onRecorded(batch, written) {
      for (const { due, ended, pauseMs } of batch) {
        inFlight.remove(due.id);
        active.noteIdle(queueKeyOf(due));
        if (ended === null) active.noteRetry(queueKeyOf(due), pauseMs);
      }
      report(o, metrics, batch, written);
    },
  });
  const shared = { ...o, active, inFlight, shards, healthChanges, wakeLoop, metrics, results };
  const loader = new QueueLoader(shared);
  const onReleased = loader.endpointRecovered.bind(loader);
  const holds = new NetworkHolds({ limit: o.limit, onReleased });
  const attempts = new AttemptRunner({ ...shared, loader, holds });
  const retryNowMs = (): number => loader.retryNowMs();
  const scheduler = new Scheduler({
    ...shared,
    ...{ loader, shopBytes, holds, attempts, offsetMs, retryNowMs },
  });
  const gauges = {
    inFlight: () => inFlight.size(),
    queues: () => active.queues.size,
    aheadOfDatabaseMs: () => Date.now() - o.databaseClock.nowMs(),
    shopsThrottled: shopBytes.throttled,
    oldestResultMs: () => results.oldestMs(),
  };
  return { inFlight, shards, results, loader, attempts, scheduler, wakeLoop, gauges };
}

/**
 * Starts the loops. Each step of the main loop loads queues, picks those that may send, starts their attempts, and
 * unloads idle queues. Results are recorded in batches as attempts end. During a stop, each shard is handed over as
 * soon as it has no attempts in flight.
 */
function startLoops(o: DispatcherOptions, parts: ReturnType<typeof createParts>): Worker {
  const { inFlight, shards, results, loader, attempts, scheduler, wakeLoop } = parts;
  observeDelivery(o.telemetry.meter, parts.gauges);
  wakeLoop.start(async () => {
    inFlight.markSlow(performance.now());
    await loader.load();
    await scheduler.sendDue();
    return loader.unload();
  });
  const rebalancing = startLoop({
    name: 'delivery shards',
    idleMs: REBALANCE_EVERY_MS,
    logger: o.logger,
    async step() {
      const before = shards.owned().join();
      const restMs = await shards.rebalance();
      if (shards.owned().join() !== before) wakeLoop.wake();
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
    async stop() {
      shards.drain();
      await Promise.all([wakeLoop.stop(), listening.stop()]);
      rebalancing.wake();
      await attempts.drain(STOP.attemptsMs);
      await results.drain(STOP.resultsMs);
      await rebalancing.stop();
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
  metrics.recorded(batch, o.clock.offsetMs());
  if (stale.length > 0) {
    metrics.stale(stale.length);
    o.logger.warn({ attempts: stale.length }, RESULTS_NOT_RECORDED);
  }
  for (const { kind, reason, percent, shopId, subscriptionId } of notices) {
    const logFields = { shop: shopId, subscription: subscriptionId };
    if (kind === 'deactivated') o.logger.warn({ ...logFields, reason }, 'subscription inactive');
    else o.logger.warn({ ...logFields, percent }, 'subscription failing, will become inactive');
    metrics.noticed(kind, percent);
  }
}
