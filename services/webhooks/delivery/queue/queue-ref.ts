import { shardLease } from '../../../platform/leases/shard-leases.ts';
import { rowsOf } from '../../../platform/postgres/sql.ts';

/** Identifies a queue. Each subscription has one. */
export interface QueueRef {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
}

/** Queues as rows of a statement. */
export const queueRows = rowsOf<QueueRef>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
});

/** Number of shards into which the endpoints are divided. */
export const DELIVERY_SHARDS = 32;

/** Prefix of the names of the leases of shards. */
export const DELIVERY_LEASES = 'deliveries';

/**
 * Returns the shard of an endpoint. All queues of an endpoint are in one shard, so that one process counts all its
 * attempts in flight.
 */
export function shardOf(endpointId: bigint): number {
  return Number(endpointId % BigInt(DELIVERY_SHARDS));
}

/** Returns the name of the lease of a shard. A process records results only while it owns this lease. */
export function leaseOf({ shard }: { readonly shard: number }): string {
  return shardLease(DELIVERY_LEASES, shard);
}

export function queueKeyOf({ shopId, subscriptionId }: QueueRef): string {
  return `${shopId}:${subscriptionId}`;
}

/** Returns the queue with this key, see {@link queueKeyOf}. */
export function queueOfKey(key: string): QueueRef {
  const [shop = '', subscription = ''] = key.split(':');
  return { shopId: BigInt(shop), subscriptionId: BigInt(subscription) };
}

export function endpointKeyOf(o: { shopId: bigint; endpointId: bigint }): string {
  return `${o.shopId}:${o.endpointId}`;
}
