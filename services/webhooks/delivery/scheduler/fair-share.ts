import {
  type Capacity,
  type EndpointCapacity,
  type HealthClass,
  type Remaining,
  takePlace,
} from './capacity.ts';

/** A queue that may have due work. */
export interface Candidate {
  readonly key: string;
  readonly shopId: bigint;
  readonly endpointKey: string;
  /** Sequence number of its last grant; greater means later. */
  readonly lastGrant: number;
}

export interface ShareOptions {
  readonly capacityOf: (endpointKey: string) => EndpointCapacity;
  /** Sequence number of the shop's last grant for the health class; greater means later. */
  readonly lastGrantOf: (shopId: bigint, healthClass: HealthClass) => number;
}

/**
 * Grants capacity one place at a time, round-robin: first over shops, then over the endpoints of a shop, then over the
 * queues of an endpoint. The one with the oldest grant is first, so that every queue is served even when only one place
 * is free at a time. Shops are counted per health class: a new endpoint of a busy shop waits no longer than one of
 * another shop.
 *
 * @returns the number of places by queue, in the order of the grants.
 */
export function shareFairly(
  candidates: readonly Candidate[],
  capacity: Capacity,
  o: ShareOptions,
): Map<string, number> {
  const given = new Map<string, number>();
  const left: Remaining = { ...capacity, reserved: { ...capacity.reserved } };
  let shops = group(candidates, o);
  while (shops.length > 0) {
    for (const { endpoints } of shops) {
      const queue = nextQueue(endpoints, left);
      if (queue !== undefined) given.set(queue, (given.get(queue) ?? 0) + 1);
    }
    shops = shops.filter(({ endpoints }) => endpoints.length > 0);
  }
  return given;
}

interface Endpoint {
  free: number;
  readonly healthClass: HealthClass;
  readonly queues: string[];
}

/** The endpoints of a shop that are in one health class. */
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
    const known = endpoints.get(endpointKey);
    if (known) {
      known.queues.push(key);
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

/** Takes one place for the next queue of the next endpoint. Both then move to the end of their lists. */
function nextQueue(endpoints: Endpoint[], left: Remaining): string | undefined {
  for (;;) {
    const endpoint = endpoints.shift();
    if (!endpoint) return undefined;
    const queue = endpoint.queues.shift();
    if (queue === undefined || !takePlace(left, endpoint.healthClass)) continue;
    endpoint.queues.push(queue);
    endpoint.free -= 1;
    if (endpoint.free > 0) endpoints.push(endpoint);
    return queue;
  }
}
