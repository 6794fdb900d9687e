import type { ShardHolder } from '../../../platform/shards.ts';
import { endpointKeyOf, shardOf } from '../queue/queue-ref.ts';
import type { ActiveQueues } from '../scheduler/active-queues.ts';
import { NEW_ENDPOINT } from './circuit-breaker.ts';
import type { HealthChanges } from './health-changes.ts';

interface HealthOptions {
  readonly active: ActiveQueues;
  readonly shards: Pick<ShardHolder, 'tokenOf'>;
  readonly healthChanges: HealthChanges;
}

interface Endpoint {
  readonly shopId: bigint;
  readonly endpointId: bigint;
}

/**
 * Resets the health of an endpoint that a user has repaired. Failures that are not recorded yet are forgotten, too. Has
 * no effect when another process sends to the endpoint.
 */
export function resetHealth(o: HealthOptions, { shopId, endpointId }: Endpoint): void {
  const endpointKey = endpointKeyOf({ shopId, endpointId });
  const shard = shardOf(endpointId);
  const token = o.shards.tokenOf(shard);
  if (token === undefined || !o.active.endpoints.health(endpointKey)) return;
  o.active.reset(endpointKey);
  o.healthChanges.set(endpointKey, { shopId, endpointId, shard, token, health: NEW_ENDPOINT });
}

/**
 * Makes the next probe of an open circuit due now. Has no effect when the circuit is closed, or when another process
 * sends to the endpoint.
 *
 * @param retryNowMs current time of the retry clock.
 */
export function probeNow(
  o: HealthOptions,
  { shopId, endpointId }: Endpoint,
  retryNowMs: number,
): void {
  const endpointKey = endpointKeyOf({ shopId, endpointId });
  const shard = shardOf(endpointId);
  const token = o.shards.tokenOf(shard);
  const health = token === undefined ? undefined : o.active.probeNow(endpointKey, retryNowMs);
  // Record this change. An older change that is not recorded yet would pause the circuit again.
  if (health && token !== undefined) {
    o.healthChanges.set(endpointKey, { shopId, endpointId, shard, token, health });
  }
}
