import type pg from 'pg';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import type { Outcome } from '../sender/send.ts';
import { holdWaiting } from './backlog.ts';
import type { Claimed } from './claim.ts';
import { pauseAfter } from './schedule.ts';

/** Only failures for this long, and at least this many, switch a subscription off. */
const FAILING_DAYS = 5;
const FAILING_MIN = 10;

const REASON_GONE = 'the endpoint answered 410 Gone';
const REASON_FAILING = `only failures for ${FAILING_DAYS} days`;

export interface Attempt {
  readonly claimed: Claimed;
  readonly outcome: Outcome;
  /** As sent. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Writes down what became of an attempt, and when the next one is due.
 *
 * @param offsetMs of the retry clock.
 * @returns false when the lease was lost meanwhile: somebody else has the delivery, and nothing
 *   is written.
 */
export function settle(pool: pg.Pool, attempt: Attempt, offsetMs: number): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    // The subscription before the delivery, as everywhere: no deadlocks.
    const isHeld = await judgeSubscription(tx, attempt, offsetMs);
    const settled = await settleDelivery(tx, attempt, offsetMs);
    if (!settled) throw new StaleLease();
    if (isHeld) {
      const { shopId, subscriptionId: id } = attempt.claimed;
      await holdWaiting(tx, { shopId, id }, offsetMs);
    }
    return true;
  }).catch((error: unknown) => {
    if (error instanceof StaleLease) return false;
    throw error;
  });
}

/** Rolls the transaction back. */
class StaleLease extends Error {}

/** Counts failures, and says whether this one switched the subscription off. */
async function judgeSubscription(
  tx: Queryable,
  { claimed, outcome }: Attempt,
  offsetMs: number,
): Promise<boolean> {
  const key = [claimed.shopId, claimed.subscriptionId];
  if (outcome.result === 'delivered') {
    await tx.query(
      `update subscriptions set failures = 0, failing_since = null
        where shop_id = $1 and id = $2 and failures > 0`,
      key,
    );
    return false;
  }
  const { rows } = await tx.query<{ isActive: boolean; isGone: boolean; isFailing: boolean }>(
    `update subscriptions
        set failures = failures + 1, failing_since = coalesce(failing_since, now() + $3 * interval '1 ms')
      where shop_id = $1 and id = $2 and deleted_at is null
     returning status = 'active' as "isActive", $4 and endpoint_id = $5 as "isGone",
       failures >= ${FAILING_MIN}
         and failing_since <= now() + $3 * interval '1 ms' - interval '${FAILING_DAYS} days' as "isFailing"`,
    [...key, offsetMs, outcome.result === 'gone', claimed.endpointId],
  );
  const [found] = rows;
  if (!found?.isActive || !(found.isGone || found.isFailing)) return false;
  await tx.query(
    `update subscriptions set status = 'inactive', inactive_reason = $3, updated_at = now()
      where shop_id = $1 and id = $2`,
    [...key, found.isGone ? REASON_GONE : REASON_FAILING],
  );
  return true;
}

/** Gives the lease back, and logs the attempt. Whether the lease was still ours. */
async function settleDelivery(
  tx: Queryable,
  { claimed, outcome, headers }: Attempt,
  offsetMs: number,
): Promise<boolean> {
  const pause =
    outcome.result === 'delivered'
      ? undefined
      : pauseAfter(claimed.roundAttempts + 1, outcome.retryAfterMs);
  const { rowCount } = await tx.query(SETTLE, [
    claimed.shopId,
    claimed.id,
    claimed.leaseToken,
    outcome.result === 'delivered',
    pause ?? null,
    offsetMs,
    outcome.startedAt,
    outcome.durationMs,
    outcome.status,
    outcome.error,
    claimed.url,
    JSON.stringify(headers),
    outcome.excerpt,
  ]);
  return rowCount === 1;
}

// A delivery that was dropped or held while in flight stays so, unless it arrived.
const SETTLE = `
with before as (
  select shop_id, id, case
           when $4 then 'delivered'
           when state in ('waiting', 'held') and $5::float8 is null then 'exhausted'
           else state end as state
    from deliveries where shop_id = $1 and id = $2 and lease_token = $3
     for update
), settled as (
  update deliveries d
     set state = before.state,
         attempts = d.attempts + 1,
         round_attempts = d.round_attempts + 1,
         next_attempt_at = case when before.state in ('waiting', 'held')
           then now() + ($6 + $5::float8) * interval '1 ms' end,
         held_since = case when before.state = 'held' then d.held_since end,
         finished_at = case when before.state in ('waiting', 'held') then null
                            when before.state = d.state then d.finished_at
                            else now() end,
         lease_token = null, lease_expires_at = null
    from before where d.shop_id = before.shop_id and d.id = before.id
  returning d.shop_id, d.id, d.attempts
)
insert into attempts (shop_id, delivery_id, number, started_at, duration_ms, status, error, url,
  request_headers, response_excerpt)
select shop_id, id, attempts, $7, $8, $9, $10, $11, $12, $13 from settled`;

/**
 * Timeouts halve what an endpoint may have in flight, successes let it grow again. A statement of
 * its own: endpoints are locked before deliveries elsewhere.
 */
export async function adjustCap(
  db: Queryable,
  { claimed, outcome }: Pick<Attempt, 'claimed' | 'outcome'>,
): Promise<void> {
  const key = [claimed.shopId, claimed.endpointId];
  if (outcome.result === 'timeout') {
    await db.query(
      `update endpoints set flight_cap = greatest(flight_cap / 2, 1)
        where shop_id = $1 and id = $2 and flight_cap > 1`,
      key,
    );
  } else if (outcome.result === 'delivered') {
    await db.query(
      `update endpoints set flight_cap = flight_cap + 1
        where shop_id = $1 and id = $2 and flight_cap < 8`,
      key,
    );
  }
}

/** Gives a lease back untouched: the attempt was not made. */
export async function release(db: Queryable, claimed: Claimed): Promise<void> {
  await db.query(
    `update deliveries set lease_token = null, lease_expires_at = null
      where shop_id = $1 and id = $2 and lease_token = $3`,
    [claimed.shopId, claimed.id, claimed.leaseToken],
  );
}

/**
 * Ends a delivery that cannot be sent any more. No request was made, so nothing is logged and the
 * subscription has failed nothing.
 */
export async function drop(db: Queryable, claimed: Claimed): Promise<void> {
  await db.query(
    `update deliveries
        set state = case when finished_at is null then 'dropped' else state end,
            finished_at = coalesce(finished_at, now()),
            next_attempt_at = null, held_since = null, lease_token = null, lease_expires_at = null
      where shop_id = $1 and id = $2 and lease_token = $3`,
    [claimed.shopId, claimed.id, claimed.leaseToken],
  );
}
