import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { listen } from '../../platform/listen.ts';
import type { Logger } from '../../platform/log.ts';
import { createShardHolder, REBALANCE_EVERY_MS } from '../../platform/shards.ts';
import { startLoop, type Worker } from '../../platform/worker.ts';
import { DUE_CHANNEL_PREFIX, parseAnnouncement } from './announce.ts';
import type { AttemptOptions } from './attempt.ts';
import { createBoard } from './board.ts';
import { createCourier } from './courier.ts';
import { createFlights } from './flights.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, type LaneRef, laneKeyOf } from './lane.ts';
import { createLaneKeeper } from './lane-keeper.ts';
import { type DeliveryMetrics, deliveryMetrics } from './metrics.ts';
import { startPulse } from './pulse.ts';
import type { RetryClock } from './retry-clock.ts';
import type { Settled, Settlement } from './settle.ts';
import { createShopBytes } from './shop-bytes.ts';

export interface DispatchOptions extends AttemptOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly clock: RetryClock;
  /** Places for attempts in this process; when endpoints hang, up to twice as many are open. */
  readonly concurrency: number;
  /** What the requests of one shop may hold in a minute. */
  readonly shopBytesPerMinute: number;
  /** The clock of those minutes (tests). Milliseconds. */
  readonly shopBytesNow?: () => number;
  /** How long a shard is kept without a sign of life (tests). Milliseconds. */
  readonly leaseMs?: number;
}

export interface Dispatcher extends Worker {
  /** Something is due: in these lanes, or in any. */
  wake(lanes?: readonly LaneRef[]): void;
  /** Real time, as the database keeps it: a wall clock that jumps does not move it. */
  now(): Date;
  /** Whether this process sends for the shard. */
  holds(shard: number): boolean;
}

/** Requests that end close together are followed by one reading. Milliseconds. */
const PACE_MS = 4;
/** What a stop waits for: the longest attempt, then the writing. Milliseconds. */
const STOP = { landMs: 16_500, writeMs: 2_500 };

/**
 * Sends what is due, until stopped; `stop` waits for the attempts in flight, and gives back at once the
 * shards that have none.
 *
 * Replicas share the shards, and with them the endpoints, so that one process counts all that an
 * endpoint has in flight. A step reads what there is room for. Attempts run on their own: no endpoint
 * waits for another's. What became of them is written in batches.
 */
export function startDispatching(o: DispatchOptions): Dispatcher {
  const flights = createFlights();
  const board = createBoard();
  const shards = createShardHolder({
    pool: o.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    isBusy: (shard) => flights.ofShard(shard) > 0,
    ...(o.leaseMs !== undefined && { leaseMs: o.leaseMs }),
  });
  const metrics = deliveryMetrics(o.telemetry.meter, {
    inFlight: () => flights.size(),
    lanes: () => board.lanes.size,
    shopsWaiting: () => shopBytes.waiting(),
    oldestResultMs: () => courier.oldestResultMs(),
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
  const keeper = createLaneKeeper({
    ...o,
    board,
    flights,
    shards,
    onReset: (endpoint) => courier.reset(endpoint),
    onWork: () => pulse.wake(),
  });
  const courier = createCourier({
    ...o,
    board,
    flights,
    shards,
    offsetMs: o.clock.offsetMs,
    retryNowMs: keeper.retryNowMs,
    shopBytes,
    onWait: keeper.postpone,
    onClosed: keeper.release,
    onRoom: () => pulse.wake(PACE_MS),
    onPutOff: metrics.putOff,
    onSettled: (batch, settled) => report(o, metrics, batch, settled),
  });
  const pulse = startPulse({
    name: 'dispatch',
    logger: o.logger,
    async step() {
      flights.age(performance.now());
      await keeper.load();
      await courier.take();
      return keeper.park();
    },
  });
  const tending = startLoop({
    name: 'delivery shards',
    idleMs: REBALANCE_EVERY_MS,
    logger: o.logger,
    async step() {
      const before = shards.held().join();
      const restMs = await shards.rebalance();
      if (shards.held().join() !== before) pulse.wake();
      return restMs;
    },
  });
  const listening = listen({
    pool: o.pool,
    logger: o.logger,
    channelPrefix: DUE_CHANNEL_PREFIX,
    onNotify: (payload) => keeper.hear(parseAnnouncement(payload)),
  });

  return {
    wake: (lanes = []) => keeper.hear({ keys: lanes.map(laneKeyOf), isChange: false }),
    now: () => new Date(keeper.retryNowMs() - o.clock.offsetMs()),
    holds: (shard) => shards.tokenOf(shard) !== undefined,
    async stop() {
      shards.drain();
      await Promise.all([pulse.stop(), listening.stop()]);
      tending.wake();
      await courier.drain(STOP);
      await tending.stop();
      await shards.release();
    },
  };
}

function report(
  o: DispatchOptions,
  metrics: DeliveryMetrics,
  batch: readonly Settlement[],
  { stale, notices }: Settled,
): void {
  metrics.settled(batch, o.clock.offsetMs());
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
