import type { QueueLoader } from '../queue/queue-loader.ts';
import type { ActiveQueue } from './active-queue.ts';
import type { ActiveQueues } from './active-queues.ts';
import type { HealthClass } from './capacity.ts';
import { type Capacity, type EndpointCapacity, freeCapacity, freeFor } from './capacity.ts';
import { type ShareOptions, shareFairly } from './fair-share.ts';
import type { InFlightAttempts } from './in-flight.ts';
import type { ShopBytes } from './shop-bytes.ts';

/** Maximum size of bodies in memory. It may be up to twice as much when endpoints hang. Bytes. */
const MAX_BYTES = 32 * 1024 * 1024;

export interface PickOptions {
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  readonly shopBytes: ShopBytes;
  readonly loader: Pick<QueueLoader, 'postpone'>;
  /** Limit of attempts in flight, from the settings. */
  readonly concurrency: number;
}

/** A queue that may start attempts. */
export interface Picked {
  readonly queue: ActiveQueue;
  readonly healthClass: HealthClass;
  /** Maximum number of attempts that the queue may start. */
  readonly limit: number;
  /** How often the queue had been notified when it was picked. */
  readonly notifications: number;
}

export interface Picks {
  /** The picked queues in the order of their grants. So the queue whose last grant is oldest is read first. */
  readonly picked: readonly Picked[];
  /** Maximum number of bytes of bodies that may start in each health class, over all queues. */
  readonly maxBytes: Readonly<Record<HealthClass, number>>;
  /** Whether some queue has due work. The queue may be picked or not. */
  readonly hasMore: boolean;
}

/** Decides which queues with due work start attempts, and how many attempts each may start. */
export async function pick(o: PickOptions): Promise<Picks> {
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

/** Unloads the queues of throttled shops, and returns the other queues. */
async function withoutThrottled(
  { shopBytes, loader }: PickOptions,
  queues: readonly ActiveQueue[],
): Promise<readonly ActiveQueue[]> {
  const throttled = new Set<bigint>();
  // One statement for each shop, because all its queues wait until the same time.
  for (const [shopId, ofShop] of Map.groupBy(queues, (queue) => queue.shopId)) {
    const waitMs = shopBytes.waitMs(shopId);
    if (waitMs === 0) continue;
    throttled.add(shopId);
    await loader.postpone(ofShop, waitMs);
  }
  return queues.filter(({ shopId }) => !throttled.has(shopId));
}

export function byHealthClass(
  of: (healthClass: HealthClass) => number,
): Record<HealthClass, number> {
  return { trusted: of('trusted'), new: of('new'), slow: of('slow'), failing: of('failing') };
}
