import type { Queryable } from '../../../platform/postgres/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../../../platform/postgres/sql.ts';
import { announceFailures, countExhausted, type Exhausted } from '../../announce.ts';
import { leaseOf, type QueueRef, queueKeyOf, queueRows } from '../queue/queue-ref.ts';
import type { AttemptResult } from './attempt-result.ts';
import { actionOnFailing, type FailureAction, type Notice, ON_GONE } from './deactivate.ts';

interface Subscription extends QueueRef {
  readonly endpointId: bigint;
  readonly isActive: boolean;
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly warnedPercent: number;
  readonly nowMs: number;
}

interface CountedFailures {
  readonly notices: readonly Notice[];
  /** Queues whose rows another transaction has locked. Their failures were not counted. */
  readonly busy: ReadonlySet<string>;
}

/** The new counts of a subscription. */
interface FailureCount {
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly warnedPercent: number;
  /** Reason of the deactivation; empty when the subscription stays active. */
  readonly reason: string;
}

/**
 * Counts failures of subscriptions, and resets a count after a success. Deactivates a subscription that had only
 * failures for too long, or whose current address answered 410. Warns before the first of these. Publishes events about
 * both, and about exhausted deliveries. The caller must have locked the leases. Skips locked rows, because their locks
 * may last long.
 *
 * @param o.offsetMs offset of the retry clock.
 */
export async function countFailures(
  tx: Queryable,
  attemptResults: readonly AttemptResult[],
  o: { offsetMs: number },
): Promise<CountedFailures> {
  const { subscriptions, busy } = await lockSubscriptions(tx, attemptResults, o.offsetMs);
  const unrecorded = await unrecordedOf(tx, attemptResults);
  const decisions: Decision[] = [];
  for (const subscription of subscriptions) {
    const key = queueKeyOf(subscription);
    const own = attemptResults.filter(
      ({ due }) => queueKeyOf(due) === key && unrecorded.has(due.id),
    );
    if (own.length === 0) continue;
    const counted = countedOf(subscription, own);
    const notice = subscription.isActive ? noticeOf(subscription, counted, own) : undefined;
    const exhausted = exhaustedOf(subscription, own);
    decisions.push({ of: subscription, counted: withNotice(counted, notice), notice, exhausted });
  }
  const deactivated = decisions.filter(({ counted }) => counted.reason !== '').map(({ of }) => of);
  const locked = await lockQueuesOfDeactivated(tx, deactivated);
  for (const key of deactivated.map(queueKeyOf)) if (!locked.has(key)) busy.add(key);
  const recorded = decisions.filter(({ of }) => !busy.has(queueKeyOf(of)));
  await writeCounts(tx, recorded, o.offsetMs);
  const notices = recorded.flatMap(({ notice }) => notice ?? []);
  await announceFailures(tx, notices);
  await countExhausted(
    tx,
    recorded.flatMap(({ exhausted }) => exhausted ?? []),
  );
  return { busy, notices };
}

interface Decision {
  readonly of: Subscription;
  readonly counted: FailureCount;
  readonly notice: Notice | undefined;
  readonly exhausted: Exhausted | undefined;
}

/** Counts the results of a subscription, in the order in which the attempts ended. */
function countedOf(subscription: Subscription, own: readonly AttemptResult[]): FailureCount {
  let { failures, failingSinceMs, warnedPercent } = subscription;
  for (const { ended } of own) {
    if (ended === 'delivered') {
      failures = 0;
      failingSinceMs = null;
      warnedPercent = 0;
    } else {
      failures += 1;
      failingSinceMs ??= subscription.nowMs;
    }
  }
  return { failures, failingSinceMs, warnedPercent, reason: '' };
}

/** Returns the counts to store, with what the notice changes. */
function withNotice(counted: FailureCount, notice: Notice | undefined): FailureCount {
  if (notice?.kind === 'deactivated') return { ...counted, reason: notice.reason };
  return notice ? { ...counted, warnedPercent: notice.percent } : counted;
}

/** Decides whether the subscription is deactivated or its owner is warned. Returns undefined for neither. */
function noticeOf(
  subscription: Subscription,
  counted: FailureCount,
  own: readonly AttemptResult[],
): Notice | undefined {
  const { shopId, subscriptionId } = subscription;
  const action = actionFor(subscription, counted, own);
  if (action.kind === 'none') return undefined;
  const { failures, failingSinceMs } = counted;
  const about = { shopId, subscriptionId, failures, failingSinceMs, lastError: lastErrorOf(own) };
  if (action.kind === 'deactivate') {
    const { reason, cause } = action;
    return { ...about, kind: 'deactivated', reason, cause, percent: 100 };
  }
  return { ...about, kind: 'warned', reason: '', cause: 'failures', percent: action.percent };
}

/** Counts the deliveries that these results exhausted. Undefined when there is none. */
function exhaustedOf(
  { shopId, subscriptionId }: Subscription,
  own: readonly AttemptResult[],
): Exhausted | undefined {
  const exhausted = own.filter(({ ended }) => ended === 'exhausted');
  if (exhausted.length === 0) return undefined;
  const lastError = lastErrorOf(exhausted);
  return { shopId, subscriptionId, deliveries: exhausted.length, lastError };
}

function lastErrorOf(own: readonly AttemptResult[]): string {
  return own.findLast(({ ended }) => ended !== 'delivered')?.sent?.result.error ?? '';
}

function actionFor(
  { endpointId, nowMs }: Subscription,
  { failures, failingSinceMs, warnedPercent }: FailureCount,
  own: readonly AttemptResult[],
): FailureAction {
  // A 410 counts only when it came from the current address.
  const isGone = own.some(
    ({ due, sent }) => sent?.result.kind === 'gone' && due.endpointId === endpointId,
  );
  if (isGone) return ON_GONE;
  if (failingSinceMs === null) return { kind: 'none' };
  return actionOnFailing({ failures, failingSinceMs, warnedPercent }, nowMs);
}

async function lockSubscriptions(
  tx: Queryable,
  attemptResults: readonly AttemptResult[],
  offsetMs: number,
): Promise<{ subscriptions: Subscription[]; busy: Set<string> }> {
  const { rows } = await tx.query<Subscription & { isBusy: boolean }>(
    named(
      'lock-failing',
      lockStatement(
        attemptResults.map(({ due }) => due),
        offsetMs,
      ),
    ),
  );
  return {
    subscriptions: rows.filter(({ isBusy }) => !isBusy),
    busy: new Set(rows.filter(({ isBusy }) => isBusy).map(queueKeyOf)),
  };
}

const lockStatement = (queues: readonly QueueRef[], offsetMs: number): Sql => sql`
with input as (
  select distinct shop_id, subscription_id as id from ${queueRows('g', queues)}
), locked as materialized (
  select s.shop_id, s.id, s.endpoint_id, s.status, s.failures, s.failing_since, s.warned_percent
    from subscriptions s join input g on g.shop_id = s.shop_id and g.id = s.id
   where s.deleted_at is null
   order by s.shop_id, s.id for no key update of s skip locked
)
select g.shop_id as "shopId", g.id as "subscriptionId", m.endpoint_id as "endpointId",
       m.status = 'active' as "isActive", m.failures,
       extract(epoch from m.failing_since)::float8 * 1000 as "failingSinceMs",
       m.warned_percent as "warnedPercent", extract(epoch from now())::float8 * 1000 + ${offsetMs} as "nowMs",
       m.id is null as "isBusy"
  from input g
  join subscriptions s on s.shop_id = g.shop_id and s.id = g.id and s.deleted_at is null
  left join locked m on m.shop_id = g.shop_id and m.id = g.id
 order by g.shop_id, g.id`;

/**
 * Locks the queues in a fixed order. Skips rows that another transaction has locked. Returns the queues that were
 * locked.
 */
async function lockQueuesOfDeactivated(
  tx: Queryable,
  queues: readonly QueueRef[],
): Promise<ReadonlySet<string>> {
  if (queues.length === 0) return new Set();
  const { rows } = await tx.query<QueueRef>(
    named(
      'lock-queues-of-deactivated',
      sql`select sq.shop_id as "shopId", sq.subscription_id as "subscriptionId" from subscription_queues sq
            join ${queueRows('g', queues)}
              on g.shop_id = sq.shop_id and g.subscription_id = sq.subscription_id
           order by sq.shop_id, sq.subscription_id for no key update of sq skip locked`,
    ),
  );
  return new Set(rows.map(queueKeyOf));
}

const waitingRows = rowsOf<AttemptResult>({
  shop_id: ['bigint', ({ due }) => due.shopId],
  subscription_id: ['bigint', ({ due }) => due.subscriptionId],
  id: ['uuid', ({ due }) => due.id],
  attempts: ['integer', ({ due }) => due.attempts],
  lease: ['text', ({ due }) => leaseOf(due)],
  token: ['bigint', ({ token }) => token],
});

/**
 * Returns the deliveries whose result is not recorded yet. When the response to a commit was lost, the call is
 * repeated. Results that the first run recorded must not count again. For `any(array[…])` see `recordStatement`.
 */
async function unrecordedOf(
  tx: Queryable,
  attemptResults: readonly AttemptResult[],
): Promise<ReadonlySet<string>> {
  const { rows } = await tx.query<{ id: string }>(
    named(
      'unrecorded-results',
      sql`select q.id from queue q
            join ${waitingRows('g', attemptResults)}
              on q.shop_id = any(array[g.shop_id]) and q.subscription_id = g.subscription_id and q.id = g.id
             and q.attempts = g.attempts
            join leases lease on lease.name = g.lease and lease.token = g.token`,
    ),
  );
  return new Set(rows.map((row) => row.id));
}

async function writeCounts(
  tx: Queryable,
  counts: readonly Decision[],
  offsetMs: number,
): Promise<void> {
  if (counts.length === 0) return;
  await tx.query(named('write-failure-counts', writeStatement(counts, offsetMs)));
}

const countRows = rowsOf<Decision>({
  shop_id: ['bigint', ({ of }) => of.shopId],
  id: ['bigint', ({ of }) => of.subscriptionId],
  failures: ['integer', ({ counted }) => counted.failures],
  failing_since: ['float8', ({ counted }) => counted.failingSinceMs],
  warned_percent: ['smallint', ({ counted }) => counted.warnedPercent],
  reason: ['text', ({ counted }) => counted.reason],
});

const writeStatement = (counts: readonly Decision[], offsetMs: number): Sql => sql`
with input as (
  select * from ${countRows('g', counts)}
), written as (
  update subscriptions s
     set failures = g.failures, failing_since = to_timestamp(g.failing_since / 1000),
         warned_percent = g.warned_percent,
         status = case when g.reason = '' then s.status else 'inactive' end,
         inactive_reason = case when g.reason = '' then s.inactive_reason else g.reason end,
         inactive_since = case when g.reason = '' then s.inactive_since else now() + ${offsetMs} * interval '1 ms' end,
         updated_at = case when g.reason = '' then s.updated_at else now() end
    from input g where s.shop_id = g.shop_id and s.id = g.id
)
update subscription_queues sq set is_open = false, ready_at = null
  from input g where g.reason <> '' and sq.shop_id = g.shop_id and sq.subscription_id = g.id`;
