import type pg from 'pg';
import type { Logger } from '../../../platform/log.ts';
import type { ShardHolder } from '../../../platform/shards.ts';
import type { Loop } from '../../../platform/worker.ts';
import type { RetryClock } from '../attempt/retry-clock.ts';
import type { HealthChanges } from '../endpoint/health-changes.ts';
import { resetHealth } from '../endpoint/reset-health.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import { type ActiveQueue, markDue } from '../scheduler/active-queue.ts';
import { type ActiveQueues, MAX_ACTIVE_QUEUES } from '../scheduler/active-queues.ts';
import type { InFlightAttempts } from '../scheduler/in-flight.ts';
import { createClockSteps } from './clock-steps.ts';
import type { DatabaseClock } from './database-clock.ts';
import type { QueueNotification } from './notify.ts';
import { endpointKeyOf, type QueueRef, queueKeyOf, shardOf } from './queue-ref.ts';
import { QueueUnloader } from './queue-unloader.ts';
import { findNextReady, findQueues, findReadyQueues, markQueuesDue } from './ready-queues.ts';
import type { FreshDeliveries } from './targets.ts';

export interface QueueLoaderOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly clock: RetryClock;
  readonly databaseClock: DatabaseClock;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly shards: ShardHolder;
  readonly healthChanges: HealthChanges;
  readonly wakeLoop: Pick<Loop, 'wake'>;
  readonly metrics: Pick<DeliveryMetrics, 'clockStep'>;
}

/** Loads ready queues, and unloads queues without due work. */
export interface QueueLoader {
  /** Unloads the queues of lost shards and loads ready ones. */
  load(): Promise<void>;
  /**
   * Unloads queues that are idle or use the space of others. Resolves to the time until the next step. Milliseconds.
   */
  unload(): Promise<number>;
  /** Unloads queues until the pause is over. Milliseconds. */
  postpone(queues: readonly ActiveQueue[], pauseMs: number): Promise<void>;
  notify(notification: QueueNotification): void;
  /** Adds committed deliveries. Those that cannot start at once are read from the table later. */
  addFresh(fresh: readonly FreshDeliveries[]): void;
  /** The circuit of an endpoint closed, so deliveries that waited for a probe are due. */
  endpointRecovered(endpoint: { shopId: bigint; endpointId: bigint }): void;
  /** The present time of the retry clock, as in the database. */
  retryNowMs(): number;
}

/** In case a notification was lost. */
const POLL_MS = 5_000;
const UNLOAD_EVERY_MS = 100;

export function createQueueLoader(o: QueueLoaderOptions): QueueLoader {
  const { active, shards } = o;
  const notified = new Map<string, QueueRef>();
  /** Endpoints whose circuit closed and whose queues are not marked ready yet. */
  const closedCircuits = new Map<string, { shopId: bigint; endpointId: bigint }>();
  let heldBefore = '';
  let scanAtMs = 0;
  let unloadAtMs = 0;

  const clockSteps = createClockSteps(o);
  const { retryNowMs } = clockSteps;
  const unloader = new QueueUnloader({
    ...o,
    retryNowMs,
    onReadyAt: scanBy,
    onMaybeReady: () => {
      scanAtMs = Math.min(scanAtMs, performance.now() + UNLOAD_EVERY_MS);
    },
  });

  function unloadLost(held: readonly number[]): void {
    const now = held.toSorted((a, b) => a - b).join();
    if (now === heldBefore) return;
    heldBefore = now;
    scanAtMs = 0;
    active.keepOnly(held);
  }

  async function scan(held: readonly number[]): Promise<void> {
    const began = performance.now();
    const offsetMs = o.clock.offsetMs();
    scanAtMs = began + POLL_MS;
    // Notified queues first: the others may be many.
    if (notified.size > 0) await loadNotified(held);
    // Before the search for ready queues, so that a queue which becomes ready between the two statements is found by
    // one.
    const askedMs = performance.now();
    const { nowMs, nextMs } = await findNextReady(o.pool, { shards: held, offsetMs });
    clockSteps.note({ askedMs, answeredMs: performance.now(), databaseMs: nowMs - offsetMs });
    if (await clockSteps.correct(held)) scanBy(nowMs + UNLOAD_EVERY_MS);
    if (nextMs !== null) scanBy(nextMs);
    const limit = MAX_ACTIVE_QUEUES - active.queues.size;
    if (limit > 0) {
      const except = [...active.queues.values()];
      const found = await findReadyQueues(o.pool, { shards: held, except, limit, offsetMs });
      for (const queue of found) active.add(queue);
      if (found.length === limit) scanAtMs = Math.min(scanAtMs, began + UNLOAD_EVERY_MS);
    }
  }

  /** @param retryMs by the retry clock. */
  function scanBy(retryMs: number): void {
    scanAtMs = Math.min(scanAtMs, performance.now() + Math.max(0, retryMs - retryNowMs()) + 1);
  }

  async function loadNotified(held: readonly number[]): Promise<void> {
    const limit = MAX_ACTIVE_QUEUES - active.queues.size;
    if (limit <= 0) return;
    const queues = [...notified.values()].slice(0, limit);
    for (const queue of queues) notified.delete(queueKeyOf(queue));
    const offsetMs = o.clock.offsetMs();
    const found = await findQueues(o.pool, queues, { shards: held, limit, offsetMs });
    for (const queue of found) active.add(queue);
  }

  /** Runs inside a step, so that no queue is unloaded at the same time. */
  async function markClosedCircuitsDue(): Promise<void> {
    for (const [key, endpoint] of [...closedCircuits]) {
      if (await markQueuesDue(o.pool, endpoint, o.clock.offsetMs())) continue;
      closedCircuits.delete(key);
    }
    scanAtMs = 0;
  }

  function addNotified(key: string): void {
    const [shop = '', subscription = ''] = key.split(':');
    if (notified.size >= MAX_ACTIVE_QUEUES) scanAtMs = 0;
    else notified.set(key, { shopId: BigInt(shop), subscriptionId: BigInt(subscription) });
  }

  return {
    retryNowMs,
    async load() {
      const held = shards.held();
      unloadLost(held);
      if (closedCircuits.size > 0) await markClosedCircuitsDue();
      if (held.length === 0) return;
      if (performance.now() >= scanAtMs) await scan(held);
      else if (notified.size > 0) await loadNotified(held);
    },
    async unload() {
      const now = performance.now();
      if (now >= unloadAtMs && active.queues.size > 0) {
        await unloader.unloadIdle();
        await unloader.unloadWaiting();
        unloadAtMs = performance.now() + UNLOAD_EVERY_MS;
      }
      if (notified.size > 0 || active.due().length > 0) return UNLOAD_EVERY_MS / 4;
      const isBusy = active.queues.size > 0 || closedCircuits.size > 0;
      const untilUnload = isBusy ? UNLOAD_EVERY_MS : POLL_MS;
      return Math.max(0, Math.min(scanAtMs - performance.now(), untilUnload));
    },
    postpone: (queues, pauseMs) => unloader.postpone(queues, pauseMs),
    notify({ keys, isChange, reset }) {
      if (reset) {
        if (shards.tokenOf(shardOf(reset.endpointId)) === undefined) return;
        resetHealth(o, reset);
        closedCircuits.set(endpointKeyOf(reset), reset);
        o.wakeLoop.wake();
        return;
      }
      if (keys.length === 0) {
        scanAtMs = 0;
        for (const queue of active.queues.values()) markDue(queue);
      }
      for (const key of keys) {
        const queue = active.queues.get(key);
        if (queue && isChange) active.remove(key);
        if (queue && !isChange) markDue(queue);
        else addNotified(key);
      }
      o.wakeLoop.wake();
    },
    addFresh(fresh) {
      for (const { target, deliveries } of fresh) {
        const isOurs = shards.tokenOf(target.shard) !== undefined;
        if (isOurs && active.addFresh(target, deliveries)) continue;
        const queue = active.queues.get(target.key);
        if (queue) markDue(queue);
        else addNotified(target.key);
      }
      o.wakeLoop.wake();
    },
    endpointRecovered(endpoint) {
      closedCircuits.set(endpointKeyOf(endpoint), endpoint);
      o.wakeLoop.wake();
    },
  };
}
