/** A queue that may have something due, and what its endpoint leaves it. */
export interface Candidate {
  readonly key: string;
  readonly shopId: bigint;
  readonly endpointKey: string;
  /** When it was last given a place: the greater, the later. */
  readonly turn: number;
}

/**
 * How an endpoint is known: it answers soon; nothing is known of it; an attempt of it is open for long;
 * it failed.
 */
export type HealthClass = 'trusted' | 'new' | 'slow' | 'failing';

/** How much an endpoint may still start. */
export interface EndpointCapacity {
  readonly free: number;
  readonly healthClass: HealthClass;
}

/** What is free: places, or bytes of bodies. */
export interface Capacity {
  /** For all, save those below that are reserved. */
  readonly all: number;
  /** Of these for endpoints not known to answer soon, and of those for slow and failing ones. */
  readonly untrusted: number;
  readonly bad: number;
  /** Besides, however many hang. */
  readonly reserved: { readonly new: number; readonly failing: number };
}

/** What a process has under way: attempts, or bytes of their bodies. */
export interface Load {
  /** The configured number. */
  readonly most: number;
  /** Everything, outcomes that are not written down included. */
  readonly all: number;
  /** By the health class of their endpoints; what is open for more than a moment is slow. */
  readonly new: number;
  readonly slow: number;
  readonly failing: number;
}

/**
 * How much may be started. Endpoints that are not known to answer soon have half of all places at
 * most, those that failed or are slow a quarter: hanging ones never fill the process. When trusted
 * ones begin to hang, all at once, they are slow as soon as that is known, and no more than half of the
 * places is counted for them: the others go on, at the price of up to twice as many open attempts.
 *
 * A few places are left for those that were never tried, and fewer for those that failed, whatever
 * hangs: an attempt that turns out to be slow gives its reserved place to the next one. How many of
 * those there may be is limited too, so that half of all places stays for trusted ones.
 */
export function freeCapacity({ most, all, new: untried, slow, failing }: Load): Capacity {
  const part = (share: number): number => Math.max(1, Math.floor(most / share));
  const half = part(2);
  const untrusted = untried + slow + failing;
  const counted = all - Math.max(0, untrusted - half);
  const free = Math.max(0, Math.min(most - counted, 2 * most - all));
  const within = (room: number, limit: number): number => Math.max(0, Math.min(room, limit));
  const freeUntrusted = within(half - untrusted, free);
  return {
    all: free,
    untrusted: freeUntrusted,
    bad: within(part(4) - slow - failing, freeUntrusted),
    reserved: {
      new: within(part(32) - untried, most + half - untrusted),
      failing: within(part(64) - failing, most - untrusted),
    },
  };
}

/** How much of it all endpoints of a health class may have. */
export function freeFor(places: Capacity, healthClass: HealthClass): number {
  if (healthClass === 'trusted') return places.all;
  if (healthClass === 'slow') return places.bad;
  const { untrusted, bad, reserved } = places;
  return healthClass === 'new'
    ? Math.max(untrusted, reserved.new)
    : Math.max(bad, reserved.failing);
}

/** How it stands with those who ask. */
export interface ShareOptions {
  readonly capacityOf: (endpointKey: string) => EndpointCapacity;
  /** When the shop was last given a place for an endpoint of the health class: the greater, the later. */
  readonly turnOf: (shopId: bigint, healthClass: HealthClass) => number;
}

/**
 * Who may read how many: shops take turns, then the endpoints of a shop, then the queues of an
 * endpoint, one place at a time. Whoever waited for longest begins: with one place at a time, too,
 * everyone has a turn. A shop has its turns for each health class: what is new in a busy shop waits no
 * longer than in another.
 *
 * @returns how many by queue, those whose turn was first in front.
 */
export function shareFairly(
  candidates: readonly Candidate[],
  places: Capacity,
  healthClasses: ShareOptions,
): Map<string, number> {
  const given = new Map<string, number>();
  const left: Left = { ...places, reserved: { ...places.reserved } };
  let shops = group(candidates, healthClasses);
  while (shops.length > 0) {
    for (const { endpoints } of shops) {
      const queue = nextLane(endpoints, left);
      if (queue !== undefined) given.set(queue, (given.get(queue) ?? 0) + 1);
    }
    shops = shops.filter(({ endpoints }) => endpoints.length > 0);
  }
  return given;
}

interface Left {
  all: number;
  untrusted: number;
  bad: number;
  readonly reserved: { new: number; failing: number };
}

/** Whether there was a place. */
function takePlace(left: Left, healthClass: HealthClass): boolean {
  const isTrusted = healthClass === 'trusted';
  const isBad = healthClass === 'slow' || healthClass === 'failing';
  if (left.all > 0 && (isTrusted || left.untrusted > 0) && (!isBad || left.bad > 0)) {
    left.all -= 1;
    if (!isTrusted) left.untrusted -= 1;
    if (isBad) left.bad -= 1;
    return true;
  }
  if (healthClass !== 'new' && healthClass !== 'failing') return false;
  if (left.reserved[healthClass] <= 0) return false;
  left.reserved[healthClass] -= 1;
  return true;
}

interface Endpoint {
  free: number;
  readonly healthClass: HealthClass;
  readonly queues: string[];
}

/** Its endpoints of one health class. */
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
    const shop = shops.get(`${shopId} ${healthClass}`);
    if (shop) shop.endpoints.push(endpoint);
    else
      shops.set(`${shopId} ${healthClass}`, {
        turn: turnOf(shopId, healthClass),
        endpoints: [endpoint],
      });
  }
  return [...shops.values()].sort(byTurn);
}

function byTurn(one: { turn: number }, other: { turn: number }): number {
  return one.turn - other.turn;
}

/** Takes one place for the next queue of the next endpoint; both go to the end of their rows. */
function nextLane(endpoints: Endpoint[], left: Left): string | undefined {
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
