import type { EndpointHealth } from './circuit-breaker.ts';

/** The health of an endpoint that is to be recorded. */
export interface EndpointChange {
  readonly shopId: bigint;
  readonly endpointId: bigint;
  readonly shard: number;
  /** Of the shard's lease when the health changed. */
  readonly token: bigint;
  readonly health: EndpointHealth;
}

/** Changes of health that are not recorded yet; of each endpoint only the latest. */
export interface HealthChanges {
  set(endpointKey: string, change: EndpointChange): void;
  /** All changes; the caller records them. */
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
