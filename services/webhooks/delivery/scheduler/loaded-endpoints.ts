import {
  afterAttempt,
  type EndpointHealth,
  NEW_ENDPOINT,
  type Sign,
} from '../endpoint/circuit-breaker.ts';
import type { StoredQueue } from '../queue/ready-queues.ts';
import type { EndpointCapacity, HealthClass } from './capacity.ts';

interface Loaded {
  readonly shard: number;
  health: EndpointHealth;
  /** Number of its queues and attempts. The endpoint is removed with the last of them. */
  users: number;
}

const TRUSTED_CAP = 3;

/** The health of the endpoints to which this process sends. */
export class LoadedEndpoints {
  readonly #endpoints = new Map<string, Loaded>();

  /** A queue was loaded. The health of an endpoint that is already loaded stays. */
  add({ endpointKey, health, shard }: StoredQueue): void {
    const known = this.#endpoints.get(endpointKey);
    if (known) known.users += 1;
    else this.#endpoints.set(endpointKey, { health, shard, users: 1 });
  }

  /** A queue of the endpoint was removed. */
  remove(key: string): void {
    const endpoint = this.#endpoints.get(key);
    if (endpoint) this.#leave(key, endpoint);
  }

  /** An attempt starts: keeps the health of its endpoint in memory until the returned function is called. */
  enter(key: string): () => void {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint) return () => {};
    endpoint.users += 1;
    return () => this.#leave(key, endpoint);
  }

  #leave(key: string, endpoint: Loaded): void {
    endpoint.users -= 1;
    if (endpoint.users === 0 && this.#endpoints.get(key) === endpoint) this.#endpoints.delete(key);
  }

  /** Removes endpoints of other shards. */
  keepOnly(shards: readonly number[]): void {
    for (const [key, { shard }] of this.#endpoints) {
      if (!shards.includes(shard)) this.#endpoints.delete(key);
    }
  }

  health(key: string): EndpointHealth | undefined {
    return this.#endpoints.get(key)?.health;
  }

  reset(key: string): void {
    const endpoint = this.#endpoints.get(key);
    if (endpoint) endpoint.health = NEW_ENDPOINT;
  }

  /**
   * Applies the outcome of an attempt. Returns the new health and whether the circuit closed; undefined when nothing
   * changed.
   */
  note(key: string, sign: Sign): { health: EndpointHealth; isClosed: boolean } | undefined {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint) return undefined;
    const before = endpoint.health;
    const health = afterAttempt(before, sign);
    endpoint.health = health;
    if (health === before) return undefined;
    return { health, isClosed: before.circuit !== null && !health.circuit };
  }

  capacity(key: string, { open, slow }: { open: number; slow: number }): EndpointCapacity {
    const health = this.health(key);
    if (!health) return { free: 0, healthClass: 'failing' };
    const free = health.circuit ? 1 - open : health.maxInFlight - open;
    return { free, healthClass: healthClassOf(health, slow) };
  }
}

export function healthClassOf(health: EndpointHealth, slow: number): HealthClass {
  if (health.failures > 0 || health.circuit) return 'failing';
  if (slow > 0) return 'slow';
  return health.maxInFlight >= TRUSTED_CAP ? 'trusted' : 'new';
}
