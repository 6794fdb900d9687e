import type pg from 'pg';
import type { ShardHolder } from '../../../platform/leases/shards.ts';
import type { Loop } from '../../../platform/process/worker.ts';
import type { Logger } from '../../../platform/telemetry/log.ts';
import type { RetryClock } from '../attempt/retry-schedule.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import type { HealthChanges } from '../endpoint/health-changes.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import { type ActiveQueue, isDue, markDue, unloadingOf } from '../scheduler/active-queue.ts';
import { type ActiveQueues, MAX_ACTIVE_QUEUES } from '../scheduler/active-queues.ts';
import type { InFlightAttempts } from '../scheduler/in-flight.ts';
import { type ClockSteps, createClockSteps, type DatabaseClock } from './database-clock.ts';
import type { QueueNotification } from './notify.ts';
import { endpointKeyOf, type QueueRef, queueKeyOf, queueOfKey, shardOf } from './queue-ref.ts';
import {
  findNextReady,
  findQueues,
  findReadyQueues,
  markQueuesDue,
  rescheduleQueues,
  unloadQueues,
} from './ready-queues.ts';
import type { FreshDeliveries } from './targets.ts';

interface QueueLoaderOptions {
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

/** How often all shards are scanned, because a notification may be lost. Milliseconds. */
const POLL_MS = 5_000;
const UNLOAD_EVERY_MS = 100;

/** Loads ready queues, and unloads queues without due work. */
export class QueueLoader {
  readonly #o: QueueLoaderOptions;
  readonly #clockSteps: ClockSteps;
  readonly #unloader: QueueUnloader;
  /** Queues with due work that are not loaded yet. */
  readonly #notified = new Map<string, QueueRef>();
  /** Endpoints whose circuit has closed. Their queues are not marked ready yet. */
  readonly #closedCircuits = new Map<string, { shopId: bigint; endpointId: bigint }>();
  #ownedBefore = '';
  #scanAtMs = 0;
  #unloadAtMs = 0;

  constructor(o: QueueLoaderOptions) {
    this.#o = o;
    this.#clockSteps = createClockSteps(o);
    this.#unloader = new QueueUnloader({
      ...o,
      retryNowMs: () => this.retryNowMs(),
      onReadyAt: (retryMs) => this.#scanAt(retryMs),
      onMaybeReady: () => this.#scanBy(performance.now() + UNLOAD_EVERY_MS),
    });
  }

  /** The current time of the retry clock, as the database computes it. */
  retryNowMs(): number {
    return this.#clockSteps.retryNowMs();
  }

  /** Unloads the queues of lost shards, and loads ready queues. */
  async load(): Promise<void> {
    const owned = this.#o.shards.owned();
    this.#unloadLost(owned);
    if (this.#closedCircuits.size > 0) await this.#markClosedCircuitsDue();
    if (owned.length === 0) return;
    if (performance.now() >= this.#scanAtMs) await this.#scan(owned);
    else if (this.#notified.size > 0) await this.#loadNotified(owned);
  }

  /**
   * Unloads idle queues. When memory is full, also unloads queues that cannot send now. Resolves to the time until the
   * next step. Milliseconds.
   */
  async unload(): Promise<number> {
    const { active } = this.#o;
    const now = performance.now();
    if (now >= this.#unloadAtMs && active.queues.size > 0) {
      await this.#unloader.unloadIdle();
      await this.#unloader.unloadWaiting();
      this.#unloadAtMs = performance.now() + UNLOAD_EVERY_MS;
    }
    if (this.#notified.size > 0 || active.due().length > 0) return UNLOAD_EVERY_MS / 4;
    const isBusy = active.queues.size > 0 || this.#closedCircuits.size > 0;
    const untilUnload = isBusy ? UNLOAD_EVERY_MS : POLL_MS;
    return Math.max(0, Math.min(this.#scanAtMs - performance.now(), untilUnload));
  }

  /** Unloads these queues, and loads them again when the pause has ended. */
  postpone(queues: readonly ActiveQueue[], pauseMs: number): Promise<void> {
    return this.#unloader.postpone(queues, pauseMs);
  }

  notify({ keys, isChange, reset, probe }: QueueNotification): void {
    if (reset) {
      this.#resetEndpoint(reset);
      return;
    }
    if (probe) {
      probeNow(this.#o, probe, this.retryNowMs());
      this.#o.wakeLoop.wake();
      return;
    }
    const { active } = this.#o;
    if (keys.length === 0) {
      this.#scanAtMs = 0;
      for (const queue of active.queues.values()) markDue(queue);
    }
    for (const key of keys) {
      if (isChange) active.remove(key);
      this.#noteDue(key);
    }
    this.#o.wakeLoop.wake();
  }

  /** Adds deliveries that were just committed. Those that cannot start at once are read from the table later. */
  addFresh(fresh: readonly FreshDeliveries[]): void {
    const { active, shards } = this.#o;
    for (const { target, deliveries } of fresh) {
      const isOurs = shards.tokenOf(target.shard) !== undefined;
      if (!isOurs || !active.addFresh(target, deliveries)) this.#noteDue(target.key);
    }
    this.#o.wakeLoop.wake();
  }

  /** Must be called when the circuit of an endpoint has closed. Deliveries that waited for a probe are then due. */
  endpointRecovered(endpoint: { shopId: bigint; endpointId: bigint }): void {
    this.#closedCircuits.set(endpointKeyOf(endpoint), endpoint);
    this.#o.wakeLoop.wake();
  }

  #resetEndpoint(endpoint: { shopId: bigint; endpointId: bigint }): void {
    if (this.#o.shards.tokenOf(shardOf(endpoint.endpointId)) === undefined) return;
    resetHealth(this.#o, endpoint);
    this.endpointRecovered(endpoint);
  }

  /** Notes that a queue has due work. The queue may be loaded or not. */
  #noteDue(key: string): void {
    const queue = this.#o.active.queues.get(key);
    if (queue) markDue(queue);
    else if (this.#notified.size >= MAX_ACTIVE_QUEUES) this.#scanAtMs = 0;
    else this.#notified.set(key, queueOfKey(key));
  }

  #unloadLost(owned: readonly number[]): void {
    const now = owned.toSorted((a, b) => a - b).join();
    if (now === this.#ownedBefore) return;
    this.#ownedBefore = now;
    this.#scanAtMs = 0;
    this.#o.active.keepOnly(owned);
  }

  async #scan(owned: readonly number[]): Promise<void> {
    const { active, pool } = this.#o;
    const began = performance.now();
    const offsetMs = this.#o.clock.offsetMs();
    this.#scanAtMs = began + POLL_MS;
    // First the queues that were notified, because there may be many others.
    if (this.#notified.size > 0) await this.#loadNotified(owned);
    await this.#noteNextReady(owned, offsetMs);
    const limit = MAX_ACTIVE_QUEUES - active.queues.size;
    if (limit <= 0) return;
    const except = [...active.queues.values()];
    const found = await findReadyQueues(pool, { shards: owned, except, limit, offsetMs });
    for (const queue of found) active.add(queue);
    if (found.length === limit) this.#scanBy(began + UNLOAD_EVERY_MS);
  }

  /**
   * Plans the next scan. Must run before the search for ready queues. A queue that becomes ready between the two
   * statements is then found by one of them.
   */
  async #noteNextReady(owned: readonly number[], offsetMs: number): Promise<void> {
    const startedMs = performance.now();
    const { nowMs, nextMs } = await findNextReady(this.#o.pool, { shards: owned, offsetMs });
    const databaseMs = nowMs - offsetMs;
    this.#clockSteps.note({ startedMs, endedMs: performance.now(), databaseMs });
    if (await this.#clockSteps.correct(owned)) this.#scanAt(nowMs + UNLOAD_EVERY_MS);
    if (nextMs !== null) this.#scanAt(nextMs);
  }

  /** Plans a scan. @param retryMs time of the scan, by the retry clock. */
  #scanAt(retryMs: number): void {
    this.#scanBy(performance.now() + Math.max(0, retryMs - this.retryNowMs()) + 1);
  }

  #scanBy(atMs: number): void {
    this.#scanAtMs = Math.min(this.#scanAtMs, atMs);
  }

  async #loadNotified(owned: readonly number[]): Promise<void> {
    const { active, clock, pool } = this.#o;
    const limit = MAX_ACTIVE_QUEUES - active.queues.size;
    if (limit <= 0) return;
    const queues = [...this.#notified.values()].slice(0, limit);
    for (const queue of queues) this.#notified.delete(queueKeyOf(queue));
    const offsetMs = clock.offsetMs();
    const found = await findQueues(pool, queues, { shards: owned, limit, offsetMs });
    for (const queue of found) active.add(queue);
  }

  /**
   * Marks the queues of these endpoints ready. Runs in a step of the loop, so that no queue is unloaded at the same
   * time.
   */
  async #markClosedCircuitsDue(): Promise<void> {
    for (const [key, endpoint] of [...this.#closedCircuits]) {
      if (await markQueuesDue(this.#o.pool, endpoint, this.#o.clock.offsetMs())) continue;
      this.#closedCircuits.delete(key);
    }
    this.#scanAtMs = 0;
  }
}

interface QueueUnloaderOptions {
  readonly pool: pg.Pool;
  readonly clock: RetryClock;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  /** The current time of the retry clock, as the database computes it. */
  readonly retryNowMs: () => number;
  /** Called with the time at which an unloaded queue becomes ready, by the retry clock. */
  readonly onReadyAt: (retryMs: number) => void;
  /** Called when a queue that was unloaded may already be ready. */
  readonly onMaybeReady: () => void;
}

/** How long a queue without due work stays loaded. It is longer than the gaps of a busy queue. Milliseconds. */
const IDLE_MS = 2_500;
const IDLE_PAUSED_MS = 100;
const IDLE_CROWDED_MS = 10;
const MAX_UNLOADED_PER_STEP = 500;
/** How long a queue without attempts stays loaded when memory is full. Milliseconds. */
const STAY_MS = 1_000;
const MAX_RESCHEDULED_PER_STEP = 250;

/**
 * Unloads queues, so that others can be loaded. An unload also stores when the next retry of the queue is due, because
 * the loader could not find the retry otherwise.
 */
export class QueueUnloader {
  readonly #o: QueueUnloaderOptions;

  constructor(o: QueueUnloaderOptions) {
    this.#o = o;
  }

  /** Unloads queues that had no due work for some time. */
  async unloadIdle(): Promise<void> {
    const { active, pool } = this.#o;
    const now = performance.now();
    const idle = firstOf(active, MAX_UNLOADED_PER_STEP, (queue) => this.#isIdle(queue, now));
    if (idle.length === 0) return;
    const nowMs = this.#o.retryNowMs();
    const unloadings = idle.map((queue) =>
      unloadingOf(queue, active.endpoints.health(queue.endpointKey), nowMs),
    );
    const ready = await unloadQueues(pool, unloadings);
    for (const queue of idle) this.#afterUnload(queue, ready.get(queue.key));
  }

  /**
   * When memory is full, unloads queues that could not send. Thousands of queues of hanging endpoints must not use the
   * memory for queues whose endpoints respond. Such a queue is loaded again after the other ready queues.
   */
  async unloadWaiting(): Promise<void> {
    const { active, inFlight, pool, clock } = this.#o;
    if (active.queues.size < MAX_ACTIVE_QUEUES) return;
    const before = performance.now() - STAY_MS;
    const late = firstOf(
      active,
      MAX_RESCHEDULED_PER_STEP,
      (queue) => queue.loadedAtMs <= before && inFlight.ofQueue(queue.key).size === 0,
    );
    if (late.length === 0) return;
    await rescheduleQueues(pool, late, { offsetMs: clock.offsetMs() });
    for (const queue of late) active.remove(queue.key);
    this.#o.onMaybeReady();
  }

  /** Unloads queues that have due work and must wait for `pauseMs`. */
  async postpone(queues: readonly ActiveQueue[], pauseMs: number): Promise<void> {
    const { active, inFlight, pool, clock } = this.#o;
    for (const queue of queues) {
      active.takeFresh(queue, Number.POSITIVE_INFINITY);
      queue.hasDueWork = false;
      queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
    }
    // Queues with attempts in flight stay loaded. They are checked again after their next idle period.
    const free = queues.filter((queue) => inFlight.ofQueue(queue.key).size === 0);
    if (free.length === 0) return;
    await rescheduleQueues(pool, free, { offsetMs: clock.offsetMs(), pauseMs });
    // Queues that were notified in the meantime stay loaded, and are checked again.
    for (const queue of free) if (!isDue(queue)) active.remove(queue.key);
    this.#o.onReadyAt(this.#o.retryNowMs() + pauseMs);
  }

  #isIdle(queue: ActiveQueue, now: number): boolean {
    const { active, inFlight } = this.#o;
    if (isDue(queue) || inFlight.ofQueue(queue.key).size > 0) return false;
    // When the health of an endpoint is not known, it has no open circuit.
    const isPaused = active.endpoints.health(queue.endpointKey)?.circuit != null;
    const isCrowded = active.queues.size > MAX_ACTIVE_QUEUES / 2;
    const idleMs = isCrowded ? IDLE_CROWDED_MS : isPaused ? IDLE_PAUSED_MS : IDLE_MS;
    return now - queue.idleSinceMs >= idleMs;
  }

  /**
   * Removes a queue from memory after it was stored, unless it is due.
   *
   * @param readyMs when the queue becomes ready, by the retry clock; null for never, undefined when the stored queue
   *   was changed.
   */
  #afterUnload(queue: ActiveQueue, readyMs: number | null | undefined): void {
    const { active, onMaybeReady, onReadyAt, retryNowMs } = this.#o;
    // The queue was notified in the meantime. So it stays loaded.
    if (isDue(queue) && readyMs !== undefined) return;
    if (readyMs === null) active.remove(queue.key);
    else if (readyMs === undefined) {
      active.remove(queue.key);
      onMaybeReady();
    } else if (readyMs > retryNowMs()) {
      active.remove(queue.key);
      onReadyAt(readyMs);
    } else {
      queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
      queue.idleSinceMs = performance.now();
      markDue(queue);
    }
  }
}

/** Returns the first `limit` queues that match. */
function firstOf(
  { queues }: ActiveQueues,
  limit: number,
  matches: (queue: ActiveQueue) => boolean,
): ActiveQueue[] {
  const first: ActiveQueue[] = [];
  for (const queue of queues.values()) {
    if (matches(queue)) first.push(queue);
    if (first.length === limit) break;
  }
  return first;
}

interface HealthOptions {
  readonly active: ActiveQueues;
  readonly shards: Pick<ShardHolder, 'tokenOf'>;
  readonly healthChanges: HealthChanges;
}

interface Endpoint {
  readonly shopId: bigint;
  readonly endpointId: bigint;
}

/**
 * Resets the health of an endpoint that a user has repaired. Failures that are not recorded yet are forgotten, too. Has
 * no effect when another process sends to the endpoint.
 */
function resetHealth(o: HealthOptions, { shopId, endpointId }: Endpoint): void {
  const endpointKey = endpointKeyOf({ shopId, endpointId });
  const shard = shardOf(endpointId);
  const token = o.shards.tokenOf(shard);
  if (token === undefined || !o.active.endpoints.health(endpointKey)) return;
  o.active.reset(endpointKey);
  o.healthChanges.set(endpointKey, { shopId, endpointId, shard, token, health: NEW_ENDPOINT });
}

/**
 * Makes the next probe of an open circuit due now. Has no effect when the circuit is closed, or when another process
 * sends to the endpoint.
 *
 * @param retryNowMs current time of the retry clock.
 */
function probeNow(o: HealthOptions, { shopId, endpointId }: Endpoint, retryNowMs: number): void {
  const endpointKey = endpointKeyOf({ shopId, endpointId });
  const shard = shardOf(endpointId);
  const token = o.shards.tokenOf(shard);
  const health = token === undefined ? undefined : o.active.probeNow(endpointKey, retryNowMs);
  // Record this change. An older change that is not recorded yet would pause the circuit again.
  if (health && token !== undefined) {
    o.healthChanges.set(endpointKey, { shopId, endpointId, shard, token, health });
  }
}
