import {
  type Capacity,
  type EndpointCapacity,
  type HealthClass,
  type Remaining,
  takePlace,
} from './capacity.ts';

/** A queue that may have something due. */
export interface Candidate {
  readonly key: string;
  readonly shopId: bigint;
  readonly endpointKey: string;
  /** When it was last given a place: a greater number is later. */
  readonly turn: number;
}

export interface ShareOptions {
  readonly capacityOf: (endpointKey: string) => EndpointCapacity;
  /** When the shop was last given a place for an endpoint of the health class: a greater number is later. */
  readonly turnOf: (shopId: bigint, healthClass: HealthClass) => number;
}

/**
 * Gives places away one at a time: shops take turns, then the endpoints of a shop, then the queues of an
 * endpoint. The one that waited longest is first, so that everybody has a turn even when there is only
 * one place at a time. A shop has a turn for each health class: a new endpoint of a busy shop waits no
 * longer than that of another shop.
 *
 * @returns the number of places by queue, in the order of turns.
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
  readonly turn: number;
  readonly endpoints: Endpoint[];
}

function group(candidates: readonly Candidate[], { capacityOf, turnOf }: ShareOptions): Shop[] {
  const shops = new Map<string, Shop>();
  const endpoints = new Map<string, Endpoint>();
  for (const { key, shopId, endpointKey } of candidates.toSorted(byTurn)) {
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
    else shops.set(shopKey, { turn: turnOf(shopId, healthClass), endpoints: [endpoint] });
  }
  return [...shops.values()].sort(byTurn);
}

function byTurn(one: { turn: number }, other: { turn: number }): number {
  return one.turn - other.turn;
}

/** Takes one place for the next queue of the next endpoint; both then go to the end of their lists. */
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
