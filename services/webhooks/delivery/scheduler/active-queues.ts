import {
  afterAttempt,
  type EndpointHealth,
  NEW_ENDPOINT,
  type Sign,
} from '../endpoint/circuit-breaker.ts';
import type { Due, ReadMode } from '../queue/read-due.ts';
import type { StoredQueue, Unloading } from '../queue/ready-queues.ts';
import type { EndpointCapacity, HealthClass } from './capacity.ts';

/** A queue that this process looks after at present. Times: `...Ms` by the monotonic clock unless said otherwise. */
export interface ActiveQueue extends StoredQueue {
  readonly loadedAtMs: number;
  /** Something may be due that was not read. */
  hasDueWork: boolean;
  /** When it was last given a place; counted, not timed. */
  turn: number;
  /** Counts the times it was told that something is due. */
  notifications: number;
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
  /** Queues and attempts: it is remembered until the last of them is gone. */
  users: number;
}

/** Queues that a process looks after at once; above half of it they go as soon as they are idle. */
export const MAX_ACTIVE_QUEUES = 2_000;

/** What may commit after what was read although it is due before; it is found by the next whole reading otherwise. */
const LATE_COMMIT_MS = 2_000;
const WHOLE_READING_EVERY_MS = 10_000;
const TRUSTED_CAP = 3;
/** Shops and healthClasses whose last turn is remembered. */
const MAX_TURNS = 20_000;

/** The queues that this process looks after, and how their endpoints fare. */
export interface ActiveQueues {
  readonly queues: ReadonlyMap<string, ActiveQueue>;
  due(): ActiveQueue[];
  /** One that is looked after already stays as it is, unless it goes to another endpoint by now. */
  add(queue: StoredQueue): void;
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
  capacity(endpointKey: string, o: { open: number; slow: number }): EndpointCapacity;
  /** The queue has had its turn, and with it its shop. */
  took(queue: ActiveQueue, healthClass: HealthClass): void;
  turnOf(shopId: bigint, healthClass: HealthClass): number;
}

export function createActiveQueues(): ActiveQueues {
  const queues = new Map<string, ActiveQueue>();
  const endpoints = new Map<string, LoadedEndpoint>();
  const turns = new Map<string, number>();
  let turn = 0;

  function leave(key: string, endpoint: LoadedEndpoint): void {
    endpoint.users -= 1;
    if (endpoint.users === 0 && endpoints.get(key) === endpoint) endpoints.delete(key);
  }

  function remove(key: string): void {
    const queue = queues.get(key);
    if (!queue) return;
    queues.delete(key);
    const endpoint = endpoints.get(queue.endpointKey);
    if (endpoint) leave(queue.endpointKey, endpoint);
  }

  return {
    queues,
    due: () => [...queues.values()].filter((queue) => queue.hasDueWork),
    add(queue) {
      if (queues.get(queue.key)?.endpointId === queue.endpointId) return;
      remove(queue.key);
      queues.set(queue.key, {
        ...queue,
        loadedAtMs: performance.now(),
        hasDueWork: true,
        turn: 0,
        notifications: 0,
        idleSinceMs: performance.now(),
        freshFromMs: 0,
        retriesFromMs: 0,
        readWholeAtMs: Number.NEGATIVE_INFINITY,
      });
      const known = endpoints.get(queue.endpointKey);
      const { health, shard } = queue;
      if (known) known.users += 1;
      else endpoints.set(queue.endpointKey, { health, shard, users: 1 });
    },
    remove,
    keepOnly(shards) {
      for (const queue of queues.values())
        if (!shards.includes(queue.shard)) queues.delete(queue.key);
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
      for (const queue of queues.values()) if (queue.endpointKey === key) markDue(queue);
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
    capacity(key, { open, slow }) {
      const health = endpoints.get(key)?.health;
      if (!health) return { free: 0, healthClass: 'failing' };
      const free = health.circuit ? 1 - open : health.maxInFlight - open;
      return { free, healthClass: healthClassOf(health, slow) };
    },
    took(queue, healthClass) {
      turn += 1;
      queue.turn = turn;
      if (turns.size >= MAX_TURNS) turns.clear();
      turns.set(`${queue.shopId} ${healthClass}`, turn);
    },
    turnOf: (shopId, healthClass) => turns.get(`${shopId} ${healthClass}`) ?? 0,
  };
}

export function healthClassOf(health: EndpointHealth, slow: number): HealthClass {
  if (health.failures > 0 || health.circuit) return 'failing';
  if (slow > 0) return 'slow';
  return health.maxInFlight >= TRUSTED_CAP ? 'trusted' : 'new';
}

/** How a queue is to be read now. @param retryNowMs by the retry clock. */
export function modeOf(health: EndpointHealth | undefined, retryNowMs: number): ReadMode {
  if (!health?.circuit) return 'all';
  return retryNowMs >= health.circuit.heldUntilMs ? 'any-probe' : 'oldest-probe';
}

/** From where on to read; from the beginning every now and then. */
export function startOf(queue: ActiveQueue): { freshFromMs: number; retriesFromMs: number } {
  const now = performance.now();
  if (now - queue.readWholeAtMs > WHOLE_READING_EVERY_MS) {
    queue.readWholeAtMs = now;
    return { freshFromMs: 0, retriesFromMs: 0 };
  }
  return { freshFromMs: queue.freshFromMs, retriesFromMs: queue.retriesFromMs };
}

/** Notes up to where a queue was read. */
export function noteRead(queue: ActiveQueue, { isRetry, dueAtMs }: Due): void {
  const from = dueAtMs - LATE_COMMIT_MS;
  if (isRetry) queue.retriesFromMs = Math.max(queue.retriesFromMs, from);
  else queue.freshFromMs = Math.max(queue.freshFromMs, from);
}

/** Something is due that may lie anywhere. */
export function markDue(queue: ActiveQueue): void {
  queue.hasDueWork = true;
  queue.notifications += 1;
}

export function unloadingOf(queue: ActiveQueue, health: EndpointHealth | undefined): Unloading {
  const { shopId, subscriptionId, endpointId } = queue;
  return { shopId, subscriptionId, endpointId, heldUntilMs: health?.circuit?.heldUntilMs ?? null };
}
