import type { Queryable } from '../../platform/postgres/postgres.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';
import { occurredAt } from '../delivery-id.ts';

/** The deliveries of a subscription that wait or are held. */
export interface Backlog {
  /** Number of these deliveries, at most 1,000. */
  readonly count: number;
  readonly isMore: boolean;
  /** Time of the event of the oldest of these deliveries; null when there is none. */
  readonly oldestAt: Date | null;
  /**
   * When the next attempt is due, by the retry clock. It is in the past when the attempt is due now. Null when no
   * delivery waits, and for an inactive subscription.
   */
  readonly nextAttemptAt: Date | null;
  /** Until when a limit delays due deliveries, by the retry clock. None does when it is null or in the past. */
  readonly delayedUntil: Date | null;
}

const MAX_COUNTED = 1_000;

interface Row {
  readonly id: bigint;
  readonly count: number;
  readonly oldest: string | null;
  readonly nextAttemptAt: Date | null;
  readonly delayedUntil: Date | null;
}

/**
 * Returns the waiting and held deliveries of each subscription of a shop, except deleted ones.
 *
 * @param subscriptionId only this subscription.
 */
export async function backlogsOf(
  db: Queryable,
  shopId: bigint,
  subscriptionId?: bigint,
): Promise<ReadonlyMap<bigint, Backlog>> {
  const { rows } = await db.query<Row>(BACKLOGS, [shopId, subscriptionId ?? null]);
  return new Map(
    rows.map(({ id, count, oldest, nextAttemptAt, delayedUntil }) => [
      id,
      {
        count: Math.min(count, MAX_COUNTED),
        isMore: count > MAX_COUNTED,
        oldestAt: oldest === null ? null : occurredAt(oldest),
        nextAttemptAt,
        delayedUntil,
      },
    ]),
  );
}

function firstOf(condition: string): string {
  return `select q.next_attempt_at from queue q
     where q.shop_id = $1 and q.subscription_id = s.id and ${condition}
     order by q.next_attempt_at limit 1`;
}

// While the circuit of the endpoint is open, the oldest delivery keeps its own time, and the others wait for the next
// probe: see the SQL function unload_queues. Otherwise only a limit makes a queue ready later than its first delivery is
// due (QueueUnloader.postpone).
const BACKLOGS = `
select s.id, w.count, oldest.id as oldest,
       case when s.status = 'active' then greatest(
         least(fresh.next_attempt_at, retry.next_attempt_at),
         case when e.circuit_opened_at is not null then least(e.held_until, oldest.next_attempt_at) end,
         delay.until
       ) end as "nextAttemptAt", delay.until as "delayedUntil"
  from subscriptions s
  join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
 cross join lateral (
   select count(*)::integer as count from (
     select from queue q where q.shop_id = $1 and q.subscription_id = s.id limit ${MAX_COUNTED + 1}) q) w
  left join lateral (
    select q.id, q.next_attempt_at from queue q
     where q.shop_id = $1 and q.subscription_id = s.id order by q.id limit 1) oldest on true
  left join lateral (${firstOf('not q.is_retry')}) fresh on true
  left join lateral (${firstOf('q.is_retry')}) retry on true
  left join lateral (
    select sq.ready_at as until from subscription_queues sq
     where sq.shop_id = $1 and sq.subscription_id = s.id and e.circuit_opened_at is null
       and sq.ready_at > least(fresh.next_attempt_at, retry.next_attempt_at)) delay on true
 where s.shop_id = $1 and ($2::bigint is null or s.id = $2) and s.deleted_at is null`;

/** The newest failed attempt of a subscription. */
export interface LastFailure {
  /** Id of the delivery. */
  readonly id: string;
  readonly startedAt: Date;
  /** HTTP status; 0 when there was no response. */
  readonly status: number;
  readonly error: string;
  readonly url: string;
  /** The beginning of the body of the response; empty when there was none. */
  readonly responseExcerpt: string;
}

/** Maximum length of the excerpt of a response. Characters. */
const EXCERPT = 200;
/** Maximum number of retried deliveries that are searched. Those whose next attempt is latest are searched first. */
const MAX_RETRIED = 50;
/** Maximum number of logged deliveries that are searched for an exhausted one. The newest are searched first. */
const MAX_LOGGED = 200;

/**
 * Returns the newest failed attempt of a subscription that fails. Undefined when its deliveries are no longer in the
 * log. While the circuit of the endpoint is open, only the oldest delivery is attempted, so this delivery is searched,
 * too.
 */
export async function lastFailure(
  db: Queryable,
  { shopId, subscriptionId }: QueueRef,
): Promise<LastFailure | undefined> {
  const { rows } = await db.query<LastFailure>(LAST_FAILURE, [shopId, subscriptionId]);
  return rows[0];
}

const LAST_FAILURE = `
with tried as (
  (select q.id from queue q
    where q.shop_id = $1 and q.subscription_id = $2 and q.is_retry
    order by q.next_attempt_at desc limit ${MAX_RETRIED})
  union
  (select q.id from queue q where q.shop_id = $1 and q.subscription_id = $2 order by q.id limit 1)
  union
  select d.id from (
    select l.id, l.ended from deliveries l
     where l.shop_id = $1 and l.subscription_id = $2 order by l.id desc limit ${MAX_LOGGED}) d
   where d.ended = 'exhausted'
)
select t.id, a.started_at as "startedAt", a.status, a.error, a.url,
       left(a.response_excerpt, ${EXCERPT}) as "responseExcerpt"
  from tried t
 cross join lateral (
   select l.started_at, l.status, l.error, l.url, l.response_excerpt from attempts l
    where l.shop_id = $1 and l.delivery_id = t.id order by l.number desc limit 1) a
 where a.error <> ''
 order by a.started_at desc limit 1`;
