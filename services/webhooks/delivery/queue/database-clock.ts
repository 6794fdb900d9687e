import type pg from 'pg';
import type { Queryable } from '../../../platform/postgres/postgres.ts';
import type { Logger } from '../../../platform/telemetry/log.ts';
import type { RetryClock } from '../attempt/retry-schedule.ts';
import type { DeliveryMetrics } from '../results/metrics.ts';
import { markDue } from '../scheduler/active-queue.ts';
import type { ActiveQueues } from '../scheduler/active-queues.ts';

/**
 * A reading of the database's clock, with the times of this process's monotonic clock before and after. Milliseconds.
 */
interface ClockReading {
  readonly startedMs: number;
  readonly endedMs: number;
  /** The database's clock at some moment in between. Milliseconds since 1970. */
  readonly databaseMs: number;
}

/** An estimate of the database's clock. It is the monotonic clock plus a skew, which is measured regularly. */
export interface DatabaseClock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /**
   * Measures the skew.
   *
   * @returns the step of the database's clock since the last reading; 0 when there was none. Milliseconds.
   */
  read(reading: ClockReading): number;
}

/** Smaller differences count as drift, and only change the skew. Milliseconds. */
const MIN_STEP_MS = 5_000;

export function createDatabaseClock(): DatabaseClock {
  /** Database's clock minus monotonic clock. Before the first reading it uses this process's own clock. */
  let skewMs = Date.now() - performance.now();
  /** Lower and upper bound of the skew in the last reading. */
  let last: { readonly lowMs: number; readonly highMs: number } | undefined;

  return {
    nowMs: () => performance.now() + skewMs,
    read({ startedMs, endedMs, databaseMs }) {
      const [lowMs, highMs] = [databaseMs - endedMs, databaseMs - startedMs];
      const stepMs = last ? stepBetween(last, { lowMs, highMs }) : 0;
      last = { lowMs, highMs };
      skewMs = Math.min(Math.max(skewMs, lowMs), highMs);
      return stepMs;
    },
  };
}

interface Bounds {
  readonly lowMs: number;
  readonly highMs: number;
}

/** Returns the difference of two readings, without the part that a slow response can explain. */
function stepBetween(before: Bounds, after: Bounds): number {
  if (after.lowMs > before.highMs + MIN_STEP_MS) return after.lowMs - before.highMs;
  if (after.highMs < before.lowMs - MIN_STEP_MS) return after.highMs - before.lowMs;
  return 0;
}

interface ClockStepsOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly clock: RetryClock;
  readonly databaseClock: DatabaseClock;
  readonly active: ActiveQueues;
  readonly metrics: Pick<DeliveryMetrics, 'clockStep'>;
}

/** Detects steps of the database's clock, and limits what they do to deliveries. */
export interface ClockSteps {
  /** The current time of the retry clock, as the database computes it. */
  retryNowMs(): number;
  /**
   * Takes a reading of the clock. Logs and counts a step. After a step, the queues in memory are read from their start.
   */
  note(reading: ClockReading): void;
  /** Every few seconds, corrects times from before the clock was set back. Returns whether there is more to correct. */
  correct(shards: readonly number[]): Promise<boolean>;
}

const CORRECT_EVERY_MS = 5_000;

export function createClockSteps(o: ClockStepsOptions): ClockSteps {
  const { databaseClock } = o;
  let correctAtMs = 0;
  /** Shards whose fresh deliveries were already checked: since the last step, and since this process took the shard. */
  let checked: ReadonlySet<number> = new Set();

  return {
    retryNowMs: () => databaseClock.nowMs() + o.clock.offsetMs(),
    note(reading) {
      const stepMs = databaseClock.read(reading);
      if (stepMs === 0) return;
      o.logger.warn({ seconds: Math.round(stepMs / 1_000) }, 'database clock step detected');
      o.metrics.clockStep(stepMs);
      correctAtMs = 0;
      checked = new Set();
      for (const queue of o.active.queues.values()) {
        queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
        markDue(queue);
      }
    },
    async correct(shards) {
      const offsetMs = o.clock.offsetMs();
      const unchecked = shards.filter((shard) => !checked.has(shard));
      if (unchecked.length > 0) await markFreshReady(o.pool, { shards: unchecked, offsetMs });
      checked = new Set(shards);
      if (performance.now() < correctAtMs) return false;
      const isMore = await restartWaits(o.pool, { shards, offsetMs });
      correctAtMs = isMore ? 0 : performance.now() + CORRECT_EVERY_MS;
      return isMore;
    },
  };
}

/**
 * A stored time that is further in the future than this is from before the database's clock was set back. Milliseconds.
 */
const AHEAD_MS = 2_000;
/** Maximum number of deliveries that one statement corrects. */
const MAX_ROWS = 2_000;

/** The shards whose rows are corrected, and the offset of the retry clock. */
interface Affected {
  readonly shards: readonly number[];
  readonly offsetMs: number;
}

/**
 * Corrects retries whose pause started in the future, because the database's clock was set back later. They wait for
 * their whole pause again, from now. So a retry is late by at most its own pause, and never early. Only the rows
 * themselves show that the clock was set back, and a corrected row does not show it any more.
 *
 * Skips rows that another transaction is writing. The next call finds them.
 *
 * @returns whether more rows may need the correction.
 */
export async function restartWaits(db: Queryable, o: Affected): Promise<boolean> {
  const { rows } = await db.query<{ count: number }>({
    name: 'restart-waits',
    text: RESTART_WAITS,
    values: [o.shards, o.offsetMs],
  });
  return rows[0]?.count === MAX_ROWS;
}

// The statement waits for no lock, so the order of its locks does not matter. It finds rows by the index on
// `scheduled_at` and then by ctid, whatever the statistics are. The update uses `clock_timestamp()`: when the process
// was frozen, `now()` is the old start of the transaction, and the retry would be early.
const RESTART_WAITS = `
with ahead as materialized (
  select q.ctid as at, q.shop_id, q.subscription_id from queue q
   where q.scheduled_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
   order by q.scheduled_at limit ${10 * MAX_ROWS}
), locked as materialized (
  select a.* from ahead a
   cross join lateral (
     select from subscription_queues sq
      where sq.shop_id = a.shop_id and sq.subscription_id = a.subscription_id and sq.shard = any($1::smallint[])
        for no key update skip locked) sq
   cross join lateral (
     select from queue q where q.ctid = a.at for no key update skip locked) q
   limit ${MAX_ROWS}
), retry_clock as materialized (
  select clock_timestamp() + $2 * interval '1 ms' as now_at
), waiting as (
  update queue q set next_attempt_at = clock.now_at + (q.next_attempt_at - q.scheduled_at), scheduled_at = clock.now_at
    from locked, retry_clock clock
   where q.ctid = locked.at and q.scheduled_at > clock.now_at + ${AHEAD_MS} * interval '1 ms'
), loaded as (
  update subscription_queues sq set ready_at = clock.now_at
    from (select distinct shop_id, subscription_id from locked) affected, retry_clock clock
   where sq.shop_id = affected.shop_id and sq.subscription_id = affected.subscription_id
     and sq.ready_at > clock.now_at
)
select count(*)::int as count from locked`;

/**
 * Marks as ready the queues with a fresh delivery whose time is in the future. Such a delivery was queued before the
 * database's clock was set back, and is due. Each waiting queue costs one index access.
 */
export async function markFreshReady(db: Queryable, o: Affected): Promise<void> {
  await db.query({ name: 'mark-fresh-ready', text: MARK_FRESH, values: [o.shards, o.offsetMs] });
}

const MARK_FRESH = `
with ahead as materialized (
  select sq.shop_id, sq.subscription_id from subscription_queues sq
   cross join lateral (
     select q.next_attempt_at as at from queue q
      where q.shop_id = sq.shop_id and q.subscription_id = sq.subscription_id and not q.is_retry
      order by q.next_attempt_at desc, q.id desc limit 1) latest
   where sq.shard = any($1::smallint[]) and sq.ready_at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
     and latest.at > now() + ($2 + ${AHEAD_MS}) * interval '1 ms'
   order by sq.shop_id, sq.subscription_id for no key update of sq skip locked
)
update subscription_queues sq set ready_at = now() + $2 * interval '1 ms'
  from ahead a where sq.shop_id = a.shop_id and sq.subscription_id = a.subscription_id`;
