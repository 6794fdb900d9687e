import {
  type Capacity,
  type EndpointCapacity,
  type HealthClass,
  type Remaining,
  takeAttempt,
} from './capacity.ts';

/** A queue that may have due work. */
export interface Candidate {
  readonly key: string;
  readonly shopId: bigint;
  readonly endpointKey: string;
  /** Sequence number of the last grant of the queue. A greater one is later. */
  readonly lastGrant: number;
}

export interface ShareOptions {
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
