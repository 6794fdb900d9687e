import type pg from 'pg';
import { onlyRow } from '../../../platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../../platform/postgres/postgres.ts';
import { stateForbids } from '../../../platform/values/errors.ts';
import { claimKey, findUse, type KeyUse } from '../../../platform/values/idempotency.ts';
import { subscriptionNotFound } from '../../subscriptions/subscription.ts';
import { lockSubscriptionShared } from '../../subscriptions/subscription-store.ts';
import { notifyDue, notifyProbe } from './notify.ts';
import { lockQueue } from './queue-changes.ts';
import type { QueueRef } from './queue-ref.ts';

/** Maximum number of deliveries in one transaction. During it, no new event gets into the queue. */
const BATCH = 1_000;
/** Maximum number of deliveries in one call. */
const MAX_RETRIED = 100_000;

export interface Retried {
  /** Number of deliveries that waited for a later attempt, and are due now. */
  readonly count: number;
  /** Whether more deliveries may still wait, because the call reached its maximum. */
  readonly isMore: boolean;
}

/**
 * Makes deliveries of a subscription due now: all that wait for a later attempt, in batches. When the circuit of the
 * endpoint is open, its next probe is also due now, and the other deliveries follow when it succeeds. These attempts
 * are additional: they do not use up the schedule. Deliveries in flight are already due, so they are not changed.
 *
 * The call only writes times to the table. Only the process that holds the endpoint's shard makes attempts. So a
 * delivery in flight is not sent a second time.
 *
 * A repeat with the same idempotency key has no effect and returns the same result, even while the first call is
 * running. The last batch claims the key in its transaction, and each batch searches for the key under the lock of the
 * queue. When the process dies, the batches before that are due, and the repeat continues.
 *
 * @param o.offsetMs offset of the retry clock.
 * @throws DomainError NOT_FOUND; FAILED_PRECONDITION when the subscription is inactive; IDEMPOTENCY_CONFLICT.
 */
export async function retryWaiting(
  pool: pg.Pool,
  queue: QueueRef,
  o: { readonly offsetMs: number; readonly use?: KeyUse | undefined },
): Promise<Retried> {
  const { use, offsetMs } = o;
  const earlier = use && (await findUse(pool, use));
  if (earlier !== undefined) return resultOf(earlier);
  const before = await retryClock(pool, offsetMs);
  for (let count = 0; ; ) {
    const batch = await retryBatch(pool, queue, { offsetMs, before, count, use });
    if (batch.result) return batch.result;
    count = batch.count;
  }
}

/** The stored result for a count of 0. The result of a key is stored as an id, so it must be at least 1. */
const STORED_ZERO = 1n;

function resultOf(stored: bigint): Retried {
  const count = Number(stored - STORED_ZERO);
  return { count, isMore: count >= MAX_RETRIED };
}

interface Batch {
  readonly offsetMs: number;
  /**
   * When the call began, by the retry clock. Deliveries whose next attempt was decided later have been tried since
   * then.
   */
  readonly before: string;
  /** Number of deliveries in earlier batches of the call. */
  readonly count: number;
  readonly use: KeyUse | undefined;
}

/** Progress of a call after a batch. The result is present when the call is complete. */
interface Progress {
  readonly count: number;
  readonly result?: Retried;
}

/** Makes up to {@link BATCH} deliveries due. Those that wait for the shortest time are first. */
function retryBatch(pool: pg.Pool, queue: QueueRef, o: Batch): Promise<Progress> {
  return inTransaction(pool, async (tx) => {
    await requireActive(tx, queue);
    // With this lock, a parallel unload sees the new times, or runs before this transaction.
    await lockQueue(tx, queue);
    const earlier = o.use && (await findUse(tx, o.use));
    if (earlier !== undefined) return { count: o.count, result: resultOf(earlier) };
    if (o.count === 0) await probeNow(tx, queue, o.offsetMs);
    const { rows } = await tx.query<{ found: number; moved: number }>(RETRY, [
      queue.shopId,
      queue.subscriptionId,
      o.offsetMs,
      o.before,
    ]);
    const { found, moved } = rows[0] ?? { found: 0, moved: 0 };
    const count = o.count + moved;
    await notifyDue(tx, [queue], { isChange: false });
    if (found === BATCH && count < MAX_RETRIED) return { count };
    const stored = BigInt(count) + STORED_ZERO;
    // Under the lock of the queue, only a call for another queue can have taken the key. This is a conflict.
    await claimKey(tx, o.use, stored);
    return { count, result: resultOf(stored) };
  });
}

async function requireActive(tx: Queryable, queue: QueueRef): Promise<void> {
  const found = await lockSubscriptionShared(tx, queue);
  if (!found) throw subscriptionNotFound(queue.subscriptionId);
  if (!found.isActive) throw stateForbids('the subscription is inactive');
}

/**
 * Makes the next probe of an open circuit due. Notifies all processes, because the process that sends to the endpoint
 * has its circuit in memory.
 */
async function probeNow(tx: Queryable, queue: QueueRef, offsetMs: number): Promise<void> {
  const { rows } = await tx.query<{ endpointId: bigint }>(
    `with opened as (
       update endpoints e set held_until = now() + $3 * interval '1 ms'
         from subscription_queues sq
        where sq.shop_id = $1 and sq.subscription_id = $2
          and e.shop_id = sq.shop_id and e.id = sq.endpoint_id
          and e.circuit_opened_at is not null and e.held_until > now() + $3 * interval '1 ms'
     )
     select endpoint_id as "endpointId" from subscription_queues where shop_id = $1 and subscription_id = $2`,
    [queue.shopId, queue.subscriptionId, offsetMs],
  );
  for (const { endpointId } of rows) await notifyProbe(tx, { shopId: queue.shopId, endpointId });
}

/** Returns the time of the retry clock as a text, because a `Date` has no microseconds. */
async function retryClock(db: Queryable, offsetMs: number): Promise<string> {
  const result = await db.query<{ at: string }>(
    `select (now() + $1 * interval '1 ms')::text as at`,
    [offsetMs],
  );
  return onlyRow(result).at;
}

// Skips a row while a result is recorded in it, because then an attempt of its delivery has just ended. `any(array(…))`
// prevents a join that reads the whole queue.
const RETRY = `
with later as materialized (
  select q.id from queue q
   where q.shop_id = $1 and q.subscription_id = $2 and q.is_retry
     and q.next_attempt_at > now() + $3 * interval '1 ms'
     and (q.scheduled_at is null or q.scheduled_at <= $4::timestamptz)
   order by q.next_attempt_at, q.id limit ${BATCH} for update skip locked
), moved as (
  update queue q
     set next_attempt_at = now() + $3 * interval '1 ms', scheduled_at = now() + $3 * interval '1 ms',
         round_attempts = greatest(q.round_attempts - 1, 0)
   where q.shop_id = $1 and q.subscription_id = $2 and q.id = any(array(select id from later))
  returning 1
), marked as (
  update subscription_queues sq set ready_at = now() + $3 * interval '1 ms'
   where sq.shop_id = $1 and sq.subscription_id = $2 and sq.is_open and sq.expire_before is null
     and (sq.ready_at > now() + $3 * interval '1 ms' or (sq.ready_at is null and exists (select from later)))
)
select (select count(*) from later)::integer as found, (select count(*) from moved)::integer as moved`;
