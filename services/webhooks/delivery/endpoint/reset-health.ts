import type { ShardHolder } from '../../../platform/shards.ts';
import { endpointKeyOf, shardOf } from '../queue/queue-ref.ts';
import type { ActiveQueues } from '../scheduler/active-queues.ts';
import { NEW_ENDPOINT } from './circuit-breaker.ts';
import type { HealthChanges } from './health-changes.ts';

/**
 * Resets the health of an endpoint that a user has repaired, including failures that are not recorded yet. Has no effect
 * when another process sends to the endpoint.
 */
export function resetHealth(
  o: {
    readonly active: ActiveQueues;
    readonly shards: Pick<ShardHolder, 'tokenOf'>;
    readonly healthChanges: HealthChanges;
  },
  { shopId, endpointId }: { shopId: bigint; endpointId: bigint },
): void {
  const endpointKey = endpointKeyOf({ shopId, endpointId });
  const shard = shardOf(endpointId);
  const token = o.shards.tokenOf(shard);
  if (token === undefined || !o.active.endpoints.health(endpointKey)) return;
  o.active.reset(endpointKey);
  o.healthChanges.set(endpointKey, { shopId, endpointId, shard, token, health: NEW_ENDPOINT });
}
