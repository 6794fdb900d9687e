import { afterAttempt, type EndpointHealth, NEW_ENDPOINT, type Sign } from './endpoint.ts';
import type { Parking, StoredLane } from './lanes.ts';
import type { Due, ReadMode } from './read-due.ts';
import type { EndpointRoom, Standing } from './rooms.ts';

/** A lane that this process looks after at present. Times: `...Ms` by the monotonic clock unless said otherwise. */
export interface LoadedLane extends StoredLane {
  readonly loadedAtMs: number;
  /** Something may be due that was not read. */
  isHungry: boolean;
  /** When it was last given a place; counted, not timed. */
  turn: number;
  /** Counts the times it was told that something is due. */
  wakes: number;
  /** Since when nothing was due. */
  idleSinceMs: number;
  /** What is due before these was read already; by the retry clock. */
  freshFromMs: number;
  retriesFromMs: number;
  readWholeAtMs: number;
}

interface LoadedEndpoint {
  readonly shard: number;
  health: EndpointHealth;
  /** Lanes and attempts: it is remembered until the last of them is gone. */
  users: number;
}

/** Lanes that a process looks after at once; above half of it they go as soon as they are idle. */
export const MAX_LANES = 2_000;

/** What may commit after what was read although it is due before; it is found by the next whole reading otherwise. */
const LATE_COMMIT_MS = 2_000;
const WHOLE_READING_EVERY_MS = 10_000;
const TRUSTED_CAP = 3;
/** Shops and standings whose last turn is remembered. */
const MAX_TURNS = 20_000;

/** The lanes that this process looks after, and how their endpoints fare. */
export interface Board {
  readonly lanes: ReadonlyMap<string, LoadedLane>;
  hungry(): LoadedLane[];
  /** One that is looked after already stays as it is, unless it goes to another endpoint by now. */
  add(lane: StoredLane): void;
  remove(key: string): void;
  /** Forgets what belongs to other shards: others look after it. */
  keepOnly(shards: readonly number[]): void;
  /** An attempt begins: how its endpoint fares is remembered until the returned function is called. */
  enter(endpointKey: string): () => void;
  /** A person has seen to the endpoint: nothing is held against it any more. */
  reset(endpointKey: string): void;
  health(endpointKey: string): EndpointHealth | undefined;
  /** Notes what an attempt said; returns how the endpoint fares, and whether its circuit closed. */
  note(endpointKey: string, sign: Sign): { health: EndpointHealth; isClosed: boolean } | undefined;
  room(endpointKey: string, o: { open: number; slow: number }): EndpointRoom;
  /** The lane has had its turn, and with it its shop. */
  took(lane: LoadedLane, standing: Standing): void;
  turnOf(shopId: bigint, standing: Standing): number;
}

export function createBoard(): Board {
  const lanes = new Map<string, LoadedLane>();
  const endpoints = new Map<string, LoadedEndpoint>();
  const turns = new Map<string, number>();
  let turn = 0;

  function leave(key: string, endpoint: LoadedEndpoint): void {
    endpoint.users -= 1;
    if (endpoint.users === 0 && endpoints.get(key) === endpoint) endpoints.delete(key);
  }

  function remove(key: string): void {
    const lane = lanes.get(key);
    if (!lane) return;
    lanes.delete(key);
    const endpoint = endpoints.get(lane.endpointKey);
    if (endpoint) leave(lane.endpointKey, endpoint);
  }

  return {
    lanes,
    hungry: () => [...lanes.values()].filter((lane) => lane.isHungry),
    add(lane) {
      if (lanes.get(lane.key)?.endpointId === lane.endpointId) return;
      remove(lane.key);
      lanes.set(lane.key, {
        ...lane,
        loadedAtMs: performance.now(),
        isHungry: true,
        turn: 0,
        wakes: 0,
        idleSinceMs: performance.now(),
        freshFromMs: 0,
        retriesFromMs: 0,
        readWholeAtMs: Number.NEGATIVE_INFINITY,
      });
      const known = endpoints.get(lane.endpointKey);
      const { health, shard } = lane;
      if (known) known.users += 1;
      else endpoints.set(lane.endpointKey, { health, shard, users: 1 });
    },
    remove,
    keepOnly(shards) {
      for (const lane of lanes.values()) if (!shards.includes(lane.shard)) lanes.delete(lane.key);
      for (const [key, { shard }] of endpoints) if (!shards.includes(shard)) endpoints.delete(key);
    },
    enter(key) {
      const endpoint = endpoints.get(key);
      if (!endpoint) return () => {};
      endpoint.users += 1;
      return () => leave(key, endpoint);
    },
    reset(key) {
      const endpoint = endpoints.get(key);
      if (!endpoint) return;
      endpoint.health = NEW_ENDPOINT;
      for (const lane of lanes.values()) if (lane.endpointKey === key) rouse(lane);
    },
    health: (key) => endpoints.get(key)?.health,
    note(key, sign) {
      const endpoint = endpoints.get(key);
      if (!endpoint) return undefined;
      const before = endpoint.health;
      endpoint.health = afterAttempt(before, sign);
      if (endpoint.health === before) return undefined;
      return {
        health: endpoint.health,
        isClosed: before.circuit !== null && !endpoint.health.circuit,
      };
    },
    room(key, { open, slow }) {
      const health = endpoints.get(key)?.health;
      if (!health) return { free: 0, standing: 'failing' };
      const free = health.circuit ? 1 - open : health.flightCap - open;
      return { free, standing: standingOf(health, slow) };
    },
    took(lane, standing) {
      turn += 1;
      lane.turn = turn;
      if (turns.size >= MAX_TURNS) turns.clear();
      turns.set(`${lane.shopId} ${standing}`, turn);
    },
    turnOf: (shopId, standing) => turns.get(`${shopId} ${standing}`) ?? 0,
  };
}

export function standingOf(health: EndpointHealth, slow: number): Standing {
  if (health.failures > 0 || health.circuit) return 'failing';
  if (slow > 0) return 'slow';
  return health.flightCap >= TRUSTED_CAP ? 'trusted' : 'new';
}

/** How a lane is to be read now. @param retryNowMs by the retry clock. */
export function modeOf(health: EndpointHealth | undefined, retryNowMs: number): ReadMode {
  if (!health?.circuit) return 'all';
  return retryNowMs >= health.circuit.heldUntilMs ? 'any-probe' : 'oldest-probe';
}

/** From where on to read; from the beginning every now and then. */
export function startOf(lane: LoadedLane): { freshFromMs: number; retriesFromMs: number } {
  const now = performance.now();
  if (now - lane.readWholeAtMs > WHOLE_READING_EVERY_MS) {
    lane.readWholeAtMs = now;
    return { freshFromMs: 0, retriesFromMs: 0 };
  }
  return { freshFromMs: lane.freshFromMs, retriesFromMs: lane.retriesFromMs };
}

/** Notes up to where a lane was read. */
export function noteRead(lane: LoadedLane, { isRetry, dueAtMs }: Due): void {
  const from = dueAtMs - LATE_COMMIT_MS;
  if (isRetry) lane.retriesFromMs = Math.max(lane.retriesFromMs, from);
  else lane.freshFromMs = Math.max(lane.freshFromMs, from);
}

/** Something is due that may lie anywhere. */
export function rouse(lane: LoadedLane): void {
  lane.isHungry = true;
  lane.wakes += 1;
}

export function parkingOf(lane: LoadedLane, health: EndpointHealth | undefined): Parking {
  const { shopId, subscriptionId, endpointId } = lane;
  return { shopId, subscriptionId, endpointId, heldUntilMs: health?.circuit?.heldUntilMs ?? null };
}
