import type pg from 'pg';
import type { ShardHolder } from '../../../platform/shards.ts';
import type { Loop } from '../../../platform/worker.ts';
import type { AttemptRunner } from '../attempt/runner.ts';
import { queueKeyOf } from '../queue/queue-ref.ts';
import { type Due, readDue } from '../queue/read-due.ts';
import { beginRead, modeOf, noteRead } from './active-queue.ts';
import { byHealthClass, type Picked, type PickOptions, type Picks, pick } from './pick.ts';

export interface SchedulerOptions extends PickOptions {
  readonly pool: pg.Pool;
  readonly shards: ShardHolder;
  readonly attempts: Pick<AttemptRunner, 'isShortOfSockets' | 'start'>;
  readonly wakeLoop: Pick<Loop, 'wake'>;
  readonly offsetMs: () => number;
  readonly retryNowMs: () => number;
}

/**
 * Pause between the end of an attempt and the next read, so that attempts that end together cause one read.
 * Milliseconds.
 */
const PACE_MS = 4;

/** Sends due deliveries. */
export class Scheduler {
  readonly #o: SchedulerOptions;
  /** Whether queues have due work that was not started. */
  #hasMore = false;

  constructor(o: SchedulerOptions) {
    this.#o = o;
  }

  /**
   * Picks queues with due work, reads as many deliveries as there is capacity for, and starts their attempts. Attempts
   * of deliveries that this process has just committed start without reading the deliveries from the table. Does not
   * wait for the end of the attempts.
   */
  async sendDue(): Promise<void> {
    if (this.#o.attempts.isShortOfSockets()) return;
    const picks = await pick(this.#o);
    this.#hasMore = picks.hasMore;
    if (picks.picked.length === 0) return;
    const picked = picks.picked.filter((one) => !this.#startFresh(one));
    if (picked.length > 0) await this.#startRead({ ...picks, picked });
    this.#hasMore = this.#o.active.due().length > 0;
  }

  /** Starts fresh deliveries of a queue that has no other due work. Returns false when the queue must be read. */
  #startFresh({ queue, healthClass, limit }: Picked): boolean {
    const { active, retryNowMs } = this.#o;
    const mode = modeOf(active.endpoints.health(queue.endpointKey), retryNowMs());
    if (queue.hasDueWork || mode !== 'all') {
      active.takeFresh(queue, Number.POSITIVE_INFINITY);
      return false;
    }
    const nowMs = retryNowMs();
    const waiting = active
      .takeFresh(queue, limit)
      .filter((due) => !this.#startUnlessThrottled(due, nowMs));
    active.noteGrant(queue, healthClass);
    queue.idleSinceMs = performance.now();
    if (waiting.length > 0) queue.hasDueWork = true;
    return true;
  }

  async #startRead(picks: Picks): Promise<void> {
    for (const { queue } of picks.picked) queue.readEndedMs = Number.POSITIVE_INFINITY;
    const readAtMs = this.#o.retryNowMs();
    const deliveries = await this.#read(picks).finally(() => {
      for (const { queue } of picks.picked) queue.readEndedMs = performance.now();
    });
    const waiting = new Set(
      deliveries.filter((due) => !this.#startUnlessThrottled(due, readAtMs)).map(queueKeyOf),
    );
    this.#note(picks, deliveries, waiting);
  }

  #read({ picked, maxBytes }: Picks): Promise<Due[]> {
    const { active, inFlight, pool } = this.#o;
    const now = this.#o.retryNowMs();
    const readings = picked.map(({ queue, healthClass, limit }) => ({
      shopId: queue.shopId,
      subscriptionId: queue.subscriptionId,
      endpointId: queue.endpointId,
      limit,
      healthClass,
      mode: modeOf(active.endpoints.health(queue.endpointKey), now),
      ...beginRead(queue),
    }));
    const except = picked.flatMap(({ queue }) => [...inFlight.ofQueue(queue.key)]);
    return readDue(pool, readings, { except, maxBytes, offsetMs: this.#o.offsetMs() });
  }

  /**
   * Starts the attempt of a delivery. Skips it when it is in flight, or when this process no longer sends its queue.
   *
   * @returns false only when its shop is throttled, so that the delivery must wait.
   */
  #startUnlessThrottled(due: Due, readAtMs: number): boolean {
    const { active, attempts, inFlight, shards, shopBytes } = this.#o;
    const queue = active.queues.get(queueKeyOf(due));
    // Check the token here, directly before the start. If this process was frozen until now, it starts no attempt.
    const token = shards.tokenOf(due.shard);
    if (!queue || !active.endpoints.health(queue.endpointKey) || token === undefined) return true;
    if (inFlight.get(due.id)) return true;
    if (!shopBytes.take(due.shopId, due.bytes)) return false;
    noteRead(queue, due, readAtMs);
    attempts.start(due, { queue, token, onEnd: this.#onEnd });
    return true;
  }

  readonly #onEnd = (): void => {
    if (this.#hasMore) this.#o.wakeLoop.wake(PACE_MS);
  };

  /** Notes which queues may have more due work than was read. */
  #note(
    { picked, maxBytes }: Picks,
    deliveries: readonly Due[],
    waiting: ReadonlySet<string>,
  ): void {
    const ofQueue = Map.groupBy(deliveries, queueKeyOf);
    const bytes = byHealthClass(() => 0);
    for (const { queue, healthClass } of picked) {
      for (const due of ofQueue.get(queue.key) ?? []) bytes[healthClass] += due.bytes;
    }
    for (const { queue, healthClass, limit, notifications } of picked) {
      const count = ofQueue.get(queue.key)?.length ?? 0;
      const isCut = bytes[healthClass] >= maxBytes[healthClass];
      if (count > 0) this.#o.active.noteGrant(queue, healthClass);
      queue.hasDueWork =
        count === limit || isCut || waiting.has(queue.key) || queue.notifications !== notifications;
      queue.idleSinceMs = performance.now();
    }
  }
}
