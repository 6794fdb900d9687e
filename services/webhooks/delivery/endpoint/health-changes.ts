import type { EndpointHealth } from './circuit-breaker.ts';

/** A change of the health of an endpoint. It must be recorded. */
export interface EndpointChange {
  readonly shopId: bigint;
  readonly endpointId: bigint;
  readonly shard: number;
  /** Token of the lease of the endpoint's shard, at the time of the change. */
  readonly token: bigint;
  readonly health: EndpointHealth;
}

/** For each endpoint, its latest health that is not recorded yet. */
export interface HealthChanges {
  set(endpointKey: string, change: EndpointChange): void;
  /** Removes and returns all changes. The caller must record them. */
  take(): EndpointChange[];
}

export function createHealthChanges(): HealthChanges {
  const changes = new Map<string, EndpointChange>();
  return {
    set: (endpointKey, change) => void changes.set(endpointKey, change),
    take() {
      const taken = [...changes.values()];
      changes.clear();
      return taken;
    },
  };
}
