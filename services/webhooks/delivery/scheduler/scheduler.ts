import type pg from 'pg';
import type { ShardHolder } from '../../../platform/leases/shards.ts';
import type { Loop } from '../../../platform/process/worker.ts';
import type { AttemptRunner } from '../attempt/runner.ts';
import type { NetworkHolds } from '../endpoint/network-holds.ts';
import type { QueueLoader } from '../queue/queue-loader.ts';
import { queueKeyOf } from '../queue/queue-ref.ts';
import { type Due, readDue } from '../queue/read-due.ts';
import { type ActiveQueue, beginRead, modeOf, noteRead } from './active-queue.ts';
import type { ActiveQueues } from './active-queues.ts';
import {
  type Capacity,
  type EndpointCapacity,
  freeCapacity,
  freeFor,
  type HealthClass,
  type Remaining,
  takeAttempt,
} from './capacity.ts';
import type { InFlightAttempts } from './in-flight.ts';
import type { ShopBytes } from './shop-bytes.ts';

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

/** Maximum size of bodies in memory. It may be up to twice as much when endpoints hang. Bytes. */
const MAX_BYTES = 32 * 1024 * 1024;

interface PickOptions {
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly shopBytes: ShopBytes;
  readonly holds: Pick<NetworkHolds, 'waitMs'>;
  readonly loader: Pick<QueueLoader, 'postpone'>;
  /** Limit of attempts in flight, from the settings. */
  readonly concurrency: number;
}

/** A queue that may start attempts. */
interface Picked {
  readonly queue: ActiveQueue;
  readonly healthClass: HealthClass;
  /** Maximum number of attempts that the queue may start. */
  readonly limit: number;
  /** How often the queue had been notified when it was picked. */
  readonly notifications: number;
}

interface Picks {
  /** The picked queues in the order of their grants. So the queue whose last grant is oldest is read first. */
  readonly picked: readonly Picked[];
  /** Maximum number of bytes of bodies that may start in each health class, over all queues. */
  readonly maxBytes: Readonly<Record<HealthClass, number>>;
  /** Whether some queue has due work. The queue may be picked or not. */
  readonly hasMore: boolean;
}

/** Decides which queues with due work start attempts, and how many attempts each may start. */
async function pick(o: PickOptions): Promise<Picks> {
  const { active, inFlight } = o;
  const queues = await withoutThrottled(o, active.due());
  const load = inFlight.load();
  const bytes = freeCapacity({ limit: MAX_BYTES, ...load.bytes });
  const maxBytes = byHealthClass((healthClass) => freeFor(bytes, healthClass));
  if (queues.length === 0) return { picked: [], maxBytes, hasMore: false };
  const free = freeCapacity({ limit: o.concurrency, ...load.attempts });
  return { picked: share(o, { queues, free, maxBytes }), maxBytes, hasMore: true };
}

function share(
  { active, inFlight }: PickOptions,
  o: {
    queues: readonly ActiveQueue[];
    free: Capacity;
    maxBytes: Readonly<Record<HealthClass, number>>;
  },
): Picked[] {
  const capacityOf = (key: string): EndpointCapacity => {
    const capacity = active.endpoints.capacity(key, inFlight.ofEndpoint(key));
    return o.maxBytes[capacity.healthClass] > 0 ? capacity : { ...capacity, free: 0 };
  };
  const lastGrantOf: ShareOptions['lastGrantOf'] = (shopId, healthClass) =>
    active.lastGrantOf(shopId, healthClass);
  const granted = shareFairly(o.queues, o.free, { capacityOf, lastGrantOf });
  return [...granted].flatMap(([key, limit]) => {
    const queue = active.queues.get(key);
    if (!queue) return [];
    const { healthClass } = capacityOf(queue.endpointKey);
    return [{ queue, healthClass, limit, notifications: queue.notifications }];
  });
}

/** Unloads the queues of throttled shops and of endpoints that must wait, and returns the other queues. */
async function withoutThrottled(
  { shopBytes, holds, loader }: PickOptions,
  queues: readonly ActiveQueue[],
): Promise<readonly ActiveQueue[]> {
  const throttled = new Set<ActiveQueue>();
  // One statement for each shop and endpoint, because all its queues wait until the same time.
  const postpone = async (group: readonly ActiveQueue[], waitMs: number): Promise<void> => {
    if (waitMs === 0) return;
    for (const queue of group) throttled.add(queue);
    await loader.postpone(group, waitMs);
  };
  for (const [shopId, ofShop] of Map.groupBy(queues, (queue) => queue.shopId))
    await postpone(ofShop, shopBytes.waitMs(shopId));
  const isHeld = ({ endpointKey }: ActiveQueue): boolean => holds.waitMs(endpointKey) > 0;
  const held = queues.filter((queue) => !throttled.has(queue) && isHeld(queue));
  for (const [key, ofEndpoint] of Map.groupBy(held, (queue) => queue.endpointKey))
    await postpone(ofEndpoint, holds.waitMs(key));
  return queues.filter((queue) => !throttled.has(queue));
}

function byHealthClass(of: (healthClass: HealthClass) => number): Record<HealthClass, number> {
  return { trusted: of('trusted'), new: of('new'), slow: of('slow'), failing: of('failing') };
}

/** A queue that may have due work. */
export interface Candidate {
  readonly key: string;
  readonly shopId: bigint;
  readonly endpointKey: string;
  /** Sequence number of the last grant of the queue. A greater one is later. */
  readonly lastGrant: number;
}

interface ShareOptions {
  readonly capacityOf: (endpointKey: string) => EndpointCapacity;
  /** Returns the sequence number of a shop's last grant for a health class. A greater one is later. */
  readonly lastGrantOf: (shopId: bigint, healthClass: HealthClass) => number;
}

/**
 * Grants one attempt at a time, round-robin: first over shops, then over the endpoints of a shop, then over the queues
 * of an endpoint. The shop or queue whose last grant is oldest is first, so that every queue gets attempts even when
 * only one at a time is free. A shop has a separate turn for each health class. So a new endpoint of a busy shop waits
 * no longer than one of another shop. A shop has no limit here; it only takes turns.
 *
 * @returns the number of attempts for each queue, in the order of the grants.
 */
export function shareFairly(
  candidates: readonly Candidate[],
  capacity: Capacity,
  o: ShareOptions,
): Map<string, number> {
  const granted = new Map<string, number>();
  const left: Remaining = { ...capacity, reserved: { ...capacity.reserved } };
  let shops = group(candidates, o);
  while (shops.length > 0) {
    for (const { endpoints } of shops) {
      const queue = nextQueue(endpoints, left);
      if (queue !== undefined) granted.set(queue, (granted.get(queue) ?? 0) + 1);
    }
    shops = shops.filter(({ endpoints }) => endpoints.length > 0);
  }
  return granted;
}

interface Endpoint {
  free: number;
  readonly healthClass: HealthClass;
  readonly queues: string[];
}

/** A shop with its endpoints of one health class. */
interface Shop {
  readonly lastGrant: number;
  readonly endpoints: Endpoint[];
}

function group(
  candidates: readonly Candidate[],
  { capacityOf, lastGrantOf }: ShareOptions,
): Shop[] {
  const shops = new Map<string, Shop>();
  const endpoints = new Map<string, Endpoint>();
  for (const { key, shopId, endpointKey } of candidates.toSorted(byLastGrant)) {
    const existing = endpoints.get(endpointKey);
    if (existing) {
      existing.queues.push(key);
      continue;
    }
    const endpoint = { ...capacityOf(endpointKey), queues: [key] };
    endpoints.set(endpointKey, endpoint);
    if (endpoint.free <= 0) continue;
    const { healthClass } = endpoint;
    const shopKey = `${shopId} ${healthClass}`;
    const shop = shops.get(shopKey);
    if (shop) shop.endpoints.push(endpoint);
    else shops.set(shopKey, { lastGrant: lastGrantOf(shopId, healthClass), endpoints: [endpoint] });
  }
  return [...shops.values()].sort(byLastGrant);
}

function byLastGrant(one: { lastGrant: number }, other: { lastGrant: number }): number {
  return one.lastGrant - other.lastGrant;
}

/** Grants one attempt to the next queue of the next endpoint. Both then move to the end of their lists. */
function nextQueue(endpoints: Endpoint[], left: Remaining): string | undefined {
  for (;;) {
    const endpoint = endpoints.shift();
    if (!endpoint) return undefined;
    const queue = endpoint.queues.shift();
    if (queue === undefined || !takeAttempt(left, endpoint.healthClass)) continue;
    endpoint.queues.push(queue);
    endpoint.free -= 1;
    if (endpoint.free > 0) endpoints.push(endpoint);
    return queue;
  }
}
