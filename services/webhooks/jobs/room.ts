import type { Queryable } from '../../platform/postgres.ts';

/** How far a job may run ahead of what a subscription takes. Deliveries. */
const AHEAD = 1_000;
const BATCH = 200;
/** A job of a subscription that takes no more looks again after this. Milliseconds. */
const FULL_REST_MS = 1_000;
/** Between two batches, so that a job never has the database to itself. Milliseconds. */
const BATCH_REST_MS = 50;
/** Of an inactive one, which waits until that is over. Milliseconds. */
const INACTIVE_REST_MS = 15_000;

/** How a job may go on with a subscription at this moment. */
export interface Room {
  /** Most deliveries of the next batch; 0 when it must wait. */
  readonly batch: number;
  /** Until the one after it, or until there may be room again. Milliseconds. */
  readonly restMs: number;
}

/** The subscription as a job finds it. */
export interface Target {
  readonly topic: string;
  readonly trigger: string;
  readonly endpointId: bigint;
  readonly isActive: boolean;
}

/**
 * Locks the subscription as it is until the end of the transaction; undefined when it was deleted.
 * Whoever changes or deletes it waits for the batch.
 */
export async function lockTarget(
  tx: Queryable,
  of: { readonly shopId: bigint; readonly subscriptionId: bigint },
): Promise<Target | undefined> {
  const { rows } = await tx.query<Target>(
    `select topic, trigger, endpoint_id as "endpointId", status = 'active' as "isActive"
       from subscriptions where shop_id = $1 and id = $2 and deleted_at is null for share`,
    [of.shopId, of.subscriptionId],
  );
  return rows[0];
}

/** What may be added to what waits behind an active subscription: a job never runs far ahead. */
export async function roomOf(
  db: Queryable,
  of: { readonly shopId: bigint; readonly subscriptionId: bigint },
  target: Target,
): Promise<Room> {
  if (!target.isActive) return { batch: 0, restMs: INACTIVE_REST_MS };
  const { rows } = await db.query<{ queued: number }>(
    `select count(*)::integer as queued from (
       select from queue where shop_id = $1 and subscription_id = $2 limit ${AHEAD}) as q`,
    [of.shopId, of.subscriptionId],
  );
  const batch = Math.min(BATCH, AHEAD - (rows[0]?.queued ?? 0));
  return { batch, restMs: batch > 0 ? BATCH_REST_MS : FULL_REST_MS };
}
