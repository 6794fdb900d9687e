import type { Queryable } from '../../platform/postgres.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';

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
