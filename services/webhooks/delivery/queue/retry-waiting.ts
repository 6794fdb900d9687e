import type pg from 'pg';
import { stateForbids } from '../../../platform/errors.ts';
import { claimKey, findUse, type KeyUse } from '../../../platform/idempotency.ts';
import { onlyRow } from '../../../platform/only-row.ts';
import { inTransaction, type Queryable } from '../../../platform/postgres.ts';
import { subscriptionNotFound } from '../../subscriptions/subscription.ts';
import { lockSubscriptionShared } from '../../subscriptions/subscription-store.ts';
import { notifyDue, notifyProbe } from './notify.ts';
import { lockQueue } from './queue-changes.ts';
import type { QueueRef } from './queue-ref.ts';

/** Maximum number of deliveries of one transaction, which keeps new events from the queue. */
const BATCH = 1_000;
/** Maximum number of deliveries of one call. */
const MAX_RETRIED = 100_000;

export interface Retried {
  /** Number of deliveries that waited for a later attempt and are due now. */
  readonly count: number;
  /** Whether more may wait for a later attempt, because the call reached its maximum. */
  readonly isMore: boolean;
}

/**
 * Makes all deliveries of a subscription due that wait for a later attempt, in batches. If the circuit of the endpoint is
 * open, its next probe is due now, too: the others follow when it succeeds. The attempts are additional ones: they do not
 * use up the schedule. Deliveries in flight are due already, so they are not changed.
 *
 * The next attempt is a time in the table, and only the holder of the endpoint's shard makes attempts. So this never
 * sends anything itself, and a delivery in flight is not sent a second time.
 *
 * A repeat with the same idempotency key has no effect and returns the same result, also while the first call runs: the
 * last batch claims the key in its transaction, and each batch looks for it under the lock of the queue. If the process
 * dies, the batches until then are due; the repeat continues.
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

/** The stored result of a key is an id, and so at least 1. */
const STORED_ZERO = 1n;

function resultOf(stored: bigint): Retried {
  const count = Number(stored - STORED_ZERO);
  return { count, isMore: count >= MAX_RETRIED };
}

interface Batch {
  readonly offsetMs: number;
  /** By the retry clock. Deliveries whose next attempt was decided later have been tried since the call began. */
  readonly before: string;
  /** Number of deliveries of the batches before. */
  readonly count: number;
  readonly use: KeyUse | undefined;
}

/** The deliveries of a call until the end of a batch. The result is present when the call is complete. */
interface Progress {
  readonly count: number;
  readonly result?: Retried;
}

/** Makes up to {@link BATCH} deliveries due, those first that wait for the shortest time. */
function retryBatch(pool: pg.Pool, queue: QueueRef, o: Batch): Promise<Progress> {
  return inTransaction(pool, async (tx) => {
    await requireActive(tx, queue);
    // A parallel unload then sees the new times, or runs before this transaction.
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
    // Under the lock of the queue, only a call for another queue can take the key. That is a conflict.
    await claimKey(tx, o.use, stored);
    return { count, result: resultOf(stored) };
  });
}

async function requireActive(tx: Queryable, queue: QueueRef): Promise<void> {
  const found = await lockSubscriptionShared(tx, queue);
  if (!found) throw subscriptionNotFound(queue.subscriptionId);
  if (!found.isActive) throw stateForbids('the subscription is inactive');
}

/** The next probe of an open circuit is due. Notifies the process that sends, which has the circuit in memory. */
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

/** The time of the retry clock as a text, because a `Date` has no microseconds. */
async function retryClock(db: Queryable, offsetMs: number): Promise<string> {
  const result = await db.query<{ at: string }>(
    `select (now() + $1 * interval '1 ms')::text as at`,
    [offsetMs],
  );
  return onlyRow(result).at;
}

// A row to which a result is written at this moment is skipped, because its delivery was just tried. `any(array(…))`
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
