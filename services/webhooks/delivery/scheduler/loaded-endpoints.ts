import {
  type AttemptEffect,
  afterAttempt,
  type EndpointHealth,
  maxOpen,
  NEW_ENDPOINT,
  withProbeAt,
} from '../endpoint/circuit-breaker.ts';
import type { StoredQueue } from '../queue/ready-queues.ts';
import type { EndpointCapacity, HealthClass } from './capacity.ts';

interface Loaded {
  readonly shard: number;
  health: EndpointHealth;
  /**
   * Number of queues and attempts that use the endpoint. When the last of them is gone, the endpoint is removed from
   * memory.
   */
  users: number;
}

/** An endpoint is trusted when its limit of attempts in flight is at least this. */
const TRUSTED_LIMIT = 3;

/** The health of the endpoints to which this process sends. */
export class LoadedEndpoints {
  readonly #endpoints = new Map<string, Loaded>();

  /** Adds the endpoint of a loaded queue. Does not change the health of an endpoint that is already loaded. */
  add({ endpointKey, health, shard }: StoredQueue): void {
    const loaded = this.#endpoints.get(endpointKey);
    if (loaded) loaded.users += 1;
    else this.#endpoints.set(endpointKey, { health, shard, users: 1 });
  }

  /** Notes that a queue of the endpoint was removed from memory. */
  remove(key: string): void {
    const endpoint = this.#endpoints.get(key);
    if (endpoint) this.#release(key, endpoint);
  }

  /** Keeps the health of an endpoint in memory during an attempt, until the returned function is called. */
  keep(key: string): () => void {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint) return () => {};
    endpoint.users += 1;
    return () => this.#release(key, endpoint);
  }

  #release(key: string, endpoint: Loaded): void {
    endpoint.users -= 1;
    if (endpoint.users === 0 && this.#endpoints.get(key) === endpoint) this.#endpoints.delete(key);
  }

  /** Removes the endpoints of other shards. */
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
   * Makes the next probe of an open circuit due now. Returns the new health; undefined when the circuit is closed.
   *
   * @param retryNowMs current time of the retry clock.
   */
  probeNow(key: string, retryNowMs: number): EndpointHealth | undefined {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint?.health.circuit) return undefined;
    endpoint.health = withProbeAt(endpoint.health, retryNowMs);
    return endpoint.health;
  }

  /**
   * Applies the result of an attempt to the health. Returns the new health, and whether the circuit has closed.
   * Returns undefined when the health did not change.
   */
  note(
    key: string,
    effect: AttemptEffect,
  ): { health: EndpointHealth; isClosed: boolean } | undefined {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint) return undefined;
    const previous = endpoint.health;
    const health = afterAttempt(previous, effect);
    endpoint.health = health;
    if (health === previous) return undefined;
    return { health, isClosed: previous.circuit !== null && !health.circuit };
  }

  capacity(key: string, { open, slow }: { open: number; slow: number }): EndpointCapacity {
    const health = this.health(key);
    if (!health) return { free: 0, healthClass: 'failing' };
    const free = maxOpen(health) - open;
    return { free, healthClass: healthClassOf(health, slow) };
  }
}

function healthClassOf(health: EndpointHealth, slow: number): HealthClass {
  if (health.failures > 0 || health.circuit) return 'failing';
  if (slow > 0) return 'slow';
  return health.maxInFlight >= TRUSTED_LIMIT ? 'trusted' : 'new';
}
