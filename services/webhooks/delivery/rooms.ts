/** A lane that may have something due, and what its endpoint leaves it. */
export interface Asking {
  readonly key: string;
  readonly shopId: bigint;
  readonly endpointKey: string;
  /** When it was last given a place: the greater, the later. */
  readonly turn: number;
}

/** How an endpoint is known: it answers soon; nothing is known; it failed or is slow. */
export type Standing = 'trusted' | 'new' | 'bad';

/** How much an endpoint may still start. */
export interface EndpointRoom {
  readonly free: number;
  readonly standing: Standing;
}

/** Places that are free: for all, of these for endpoints not known to answer soon, of these for bad ones. */
export interface Places {
  readonly all: number;
  readonly untrusted: number;
  readonly bad: number;
}

/** What a process has under way. */
export interface Load {
  /** The configured number of places. */
  readonly most: number;
  /** Everything, outcomes that are not written down included. */
  readonly all: number;
  /** Open attempts by the standing of their endpoints; those open for more than a moment are bad. */
  readonly new: number;
  readonly bad: number;
}

/**
 * How much may be started. Endpoints that are not known to answer soon have half of all places at
 * most, those that failed or are slow a quarter: hanging ones never fill the process. When trusted
 * ones begin to hang, all at once, they are bad as soon as that is known, and no more than half of the
 * places is counted for them: the others go on, at the price of up to twice as many open attempts.
 */
export function freePlaces({ most, all, new: untried, bad }: Load): Places {
  const half = Math.max(1, Math.floor(most / 2));
  const quarter = Math.max(1, Math.floor(most / 4));
  const untrusted = untried + bad;
  const counted = all - Math.max(0, untrusted - half);
  const free = Math.max(0, Math.min(most - counted, 2 * most - all));
  const freeUntrusted = Math.max(0, Math.min(half - untrusted, free));
  return {
    all: free,
    untrusted: freeUntrusted,
    bad: Math.max(0, Math.min(quarter - bad, freeUntrusted)),
  };
}

/** How it stands with those who ask. */
export interface Standings {
  readonly roomOf: (endpointKey: string) => EndpointRoom;
  /** When the shop was last given a place: the greater, the later. */
  readonly turnOf: (shopId: bigint) => number;
}

/**
 * Who may read how many: shops take turns, then the endpoints of a shop, then the lanes of an
 * endpoint, one place at a time. Whoever waited for longest begins: with one place at a time, too,
 * everyone has a turn.
 */
export function allot(
  asking: readonly Asking[],
  places: Places,
  standings: Standings,
): Map<string, number> {
  const given = new Map<string, number>();
  const left = { ...places };
  let shops = group(asking, standings);
  while (left.all > 0 && shops.length > 0) {
    for (const shop of shops) {
      if (left.all === 0) break;
      const turn = nextEndpoint(shop, left);
      if (!turn) continue;
      given.set(turn.lane, (given.get(turn.lane) ?? 0) + 1);
      left.all -= 1;
      if (turn.standing !== 'trusted') left.untrusted -= 1;
      if (turn.standing === 'bad') left.bad -= 1;
    }
    shops = shops.filter(({ endpoints }) => endpoints.length > 0);
  }
  return given;
}

interface Endpoint {
  free: number;
  readonly standing: Standing;
  readonly lanes: string[];
}

interface Shop {
  readonly turn: number;
  readonly endpoints: Endpoint[];
}

function group(asking: readonly Asking[], { roomOf, turnOf }: Standings): Shop[] {
  const shops = new Map<bigint, Shop>();
  const endpoints = new Map<string, Endpoint>();
  for (const { key, shopId, endpointKey } of asking.toSorted(byTurn)) {
    const known = endpoints.get(endpointKey);
    if (known) {
      known.lanes.push(key);
      continue;
    }
    const endpoint = { ...roomOf(endpointKey), lanes: [key] };
    endpoints.set(endpointKey, endpoint);
    if (endpoint.free <= 0) continue;
    const shop = shops.get(shopId);
    if (shop) shop.endpoints.push(endpoint);
    else shops.set(shopId, { turn: turnOf(shopId), endpoints: [endpoint] });
  }
  return [...shops.values()].sort(byTurn);
}

function byTurn(one: { turn: number }, other: { turn: number }): number {
  return one.turn - other.turn;
}

/** Takes one place of the shop's next endpoint for its next lane; both go to the end of their rows. */
function nextEndpoint(
  { endpoints }: Shop,
  left: Places,
): { lane: string; standing: Standing } | undefined {
  for (;;) {
    const endpoint = endpoints.shift();
    if (!endpoint) return undefined;
    const { standing } = endpoint;
    if (standing !== 'trusted' && left.untrusted <= 0) continue;
    if (standing === 'bad' && left.bad <= 0) continue;
    const lane = endpoint.lanes.shift();
    if (lane === undefined) continue;
    endpoint.lanes.push(lane);
    endpoint.free -= 1;
    if (endpoint.free > 0) endpoints.push(endpoint);
    return { lane, standing };
  }
}
