import type pg from 'pg';
import type { Logger } from '../../../platform/log.ts';
import type { ShardHolder } from '../../../platform/shards.ts';
import type { Loop } from '../../../platform/worker.ts';
import type { RetryClock } from '../attempt/retry-clock.ts';
import type { HealthChanges } from '../endpoint/health-changes.ts';
import { probeNow, resetHealth } from '../endpoint/reset-health.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import { type ActiveQueue, markDue } from '../scheduler/active-queue.ts';
import { type ActiveQueues, MAX_ACTIVE_QUEUES } from '../scheduler/active-queues.ts';
import type { InFlightAttempts } from '../scheduler/in-flight.ts';
import { type ClockSteps, createClockSteps } from './clock-steps.ts';
import type { DatabaseClock } from './database-clock.ts';
import type { QueueNotification } from './notify.ts';
import { endpointKeyOf, type QueueRef, queueKeyOf, queueOfKey, shardOf } from './queue-ref.ts';
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
