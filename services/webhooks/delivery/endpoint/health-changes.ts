import type { EndpointHealth } from './circuit-breaker.ts';

/** A change of an endpoint's health, to be recorded. */
export interface EndpointChange {
  readonly shopId: bigint;
  readonly endpointId: bigint;
  readonly shard: number;
  /** Token of the shard's lease at the time of the change. */
  readonly token: bigint;
  readonly health: EndpointHealth;
}

/** The latest unrecorded change of health of each endpoint. */
export interface HealthChanges {
  set(endpointKey: string, change: EndpointChange): void;
  /** Removes and returns all changes. The caller records them. */
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
