import type { QueueLoader } from '../queue/queue-loader.ts';
import type { ActiveQueue } from './active-queue.ts';
import type { ActiveQueues } from './active-queues.ts';
import type { HealthClass } from './capacity.ts';
import { type Capacity, type EndpointCapacity, freeCapacity, freeFor } from './capacity.ts';
import { type ShareOptions, shareFairly } from './fair-share.ts';
import type { InFlightAttempts } from './in-flight.ts';
import type { ShopBytes } from './shop-bytes.ts';

/** Maximum size of bodies in memory; up to twice as many when endpoints hang. */
const MAX_BYTES = 32 * 1024 * 1024;

export interface PickOptions {
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly shopBytes: ShopBytes;
  readonly loader: Pick<QueueLoader, 'postpone'>;
  /** Configured limit of attempts in flight. */
  readonly concurrency: number;
}

/** A queue that may be read from. */
export interface Picked {
  readonly queue: ActiveQueue;
  readonly healthClass: HealthClass;
  /** How many deliveries may be started. */
  readonly limit: number;
  /** Number of its notifications when it was picked. */
  readonly notifications: number;
}

export interface Picks {
  /** In the order of the grants. If not all can be read, the queue that waited longest is read first. */
  readonly picked: readonly Picked[];
  /** Bytes of bodies that all queues of a health class together may start. */
  readonly maxBytes: Readonly<Record<HealthClass, number>>;
  /** Whether queues have due work, picked or not. */
  readonly hasMore: boolean;
}

/** Decides which of the queues with due work are read, and how many deliveries of each. */
export async function pick(o: PickOptions): Promise<Picks> {
  const { active, inFlight } = o;
  const queues = await withoutWaiting(o, active.due());
  const load = inFlight.load();
  const bytes = freeCapacity({ most: MAX_BYTES, ...load.bytes });
  const maxBytes = byHealthClass((healthClass) => freeFor(bytes, healthClass));
  if (queues.length === 0) return { picked: [], maxBytes, hasMore: false };
  const free = freeCapacity({ most: o.concurrency, ...load.places });
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
  const given = shareFairly(o.queues, o.free, { capacityOf, lastGrantOf });
  return [...given].flatMap(([key, limit]) => {
    const queue = active.queues.get(key);
    if (!queue) return [];
    const { healthClass } = capacityOf(queue.endpointKey);
    return [{ queue, healthClass, limit, notifications: queue.notifications }];
  });
}

/** Queues of a throttled shop wait in the table, not in memory. */
async function withoutWaiting(
  { shopBytes, loader }: PickOptions,
  queues: readonly ActiveQueue[],
): Promise<readonly ActiveQueue[]> {
  const waiting = new Set<bigint>();
  // One statement per shop, because all its queues wait until the same time.
  for (const [shopId, ofShop] of Map.groupBy(queues, (queue) => queue.shopId)) {
    const waitMs = shopBytes.waitMs(shopId);
    if (waitMs === 0) continue;
    waiting.add(shopId);
    await loader.postpone(ofShop, waitMs);
  }
  return queues.filter(({ shopId }) => !waiting.has(shopId));
}

export function byHealthClass(
  of: (healthClass: HealthClass) => number,
): Record<HealthClass, number> {
  return { trusted: of('trusted'), new: of('new'), slow: of('slow'), failing: of('failing') };
}
