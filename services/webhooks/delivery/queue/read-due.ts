import type { Queryable } from '../../../platform/postgres.ts';
import { named, param, raw, rowsOf, type Sql, sql } from '../../../platform/sql.ts';
import type { HealthClass } from '../scheduler/capacity.ts';
import type { QueueRef } from './queue-ref.ts';

/** A due delivery with everything that its attempt needs. */
export interface Due extends QueueRef {
  readonly id: string;
  readonly endpointId: bigint;
  readonly shard: number;
  readonly url: string;
  readonly payloadId: string;
  readonly eventId: string;
  readonly trigger: string;
  readonly apiVersion: string;
  readonly revision: bigint;
  readonly traceparent: string;
  /** All attempts before this one, and those of this round. */
  readonly attempts: number;
  readonly roundAttempts: number;
  /** Length of the body. */
  readonly bytes: number;
  /** By the retry clock, ms. */
  readonly dueAtMs: number;
  readonly queuedAtMs: number;
  /** `queuedAtMs` as text with microseconds. Each time a delivery is queued it differs. */
  readonly round: string;
  /** Fresh, or a retry or replay. */
  readonly isRetry: boolean;
  /** The valid signing secrets, encrypted as stored, newest first; null without one. See `signingKeys`. */
  readonly encryptedSecrets: string | null;
  /** The subscription has failed since its last success. */
  readonly isFailing: boolean;
  /** Null when the body was removed while the delivery waited. */
  readonly body: Buffer | null;
}

/** What to read: `any-probe` reads the oldest due delivery; `oldest-probe` reads the oldest delivery, if it is due. */
export type ReadMode = 'all' | 'any-probe' | 'oldest-probe';

// The statement has their positions, counted from 1.
const HEALTH_CLASSES: readonly HealthClass[] = ['trusted', 'new', 'slow', 'failing'];
const MODES: readonly ReadMode[] = ['all', 'any-probe', 'oldest-probe'];

export interface Reading extends QueueRef {
  /** The endpoint when the queue was loaded. A queue that has moved to another endpoint is skipped. */
  readonly endpointId: bigint;
  readonly limit: number;
  readonly mode: ReadMode;
  /** Health class of its endpoint, which decides the limit of bytes. */
  readonly healthClass: HealthClass;
  /** Where to start, by the retry clock, ms. Earlier deliveries were read before. 0 for the start of the queue. */
  readonly freshFromMs: number;
  readonly retriesFromMs: number;
}

interface DueNow {
  /** Deliveries in flight. */
  readonly except: readonly string[];
  /** Of bodies, for all queues of each health class. The delivery that exceeds it is the last. */
  readonly maxBytes: Readonly<Record<HealthClass, number>>;
  /** Of the retry clock. */
  readonly offsetMs: number;
}

/**
 * Reads the due deliveries of each queue, fresh deliveries before retries. Costs a few index steps for each queue,
 * however long the queue is.
 *
 * @returns the deliveries, queue by queue.
 */
export async function readDue(
  db: Queryable,
  readings: readonly Reading[],
  o: DueNow,
): Promise<Due[]> {
  return (await db.query<Due>(named('read-due', readStatement(readings, o)))).rows;
}

/** The valid signing secrets of the subscription of a queue, encrypted, newest first, as {@link Due} has them. */
export const encryptedSecretsOf = (queue: string): Sql => sql`(
  select string_agg(c.key_id || ':' || encode(c.sealed, 'hex'), ',' order by c.id desc)
    from secrets c
   where c.shop_id = ${raw(queue)}.shop_id and c.subscription_id = ${raw(queue)}.subscription_id
     and (c.expires_at is null or c.expires_at > now()))`;

const readingRows = rowsOf<Reading>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
  endpoint_id: ['bigint', ({ endpointId }) => endpointId],
  most: ['integer', ({ limit }) => limit],
  mode: ['smallint', ({ mode }) => MODES.indexOf(mode)],
  fresh_from: ['float8', ({ freshFromMs }) => freshFromMs],
  retries_from: ['float8', ({ retriesFromMs }) => retriesFromMs],
  health_class: ['smallint', ({ healthClass }) => HEALTH_CLASSES.indexOf(healthClass) + 1],
});

// `offset 0` makes the planner read each body by its key in the partition of its day, whatever the statistics are.
function readStatement(readings: readonly Reading[], o: DueNow): Sql {
  const most = HEALTH_CLASSES.map((healthClass) => o.maxBytes[healthClass]);
  return sql`
with wanted as materialized (
  select g.*, l.shard, e.url, s.failures > 0 as is_failing, ${encryptedSecretsOf('g')} as encrypted_secrets
    from ${readingRows('g', readings, 'n')}
    join subscription_queues l on l.shop_id = g.shop_id and l.subscription_id = g.subscription_id
                and l.endpoint_id = g.endpoint_id and l.is_open and l.expire_before is null
    join subscriptions s on s.shop_id = g.shop_id and s.id = g.subscription_id
    join endpoints e on e.shop_id = g.shop_id and e.id = g.endpoint_id
), due as materialized (
  select w.n, w.health_class, w.shard, w.url, w.is_failing, w.encrypted_secrets, w.endpoint_id, q.*,
         sum(q.bytes) over (partition by w.health_class order by w.n, q.nth) - q.bytes as bytes_before
    from wanted w cross join lateral (${dueOfQueue(o)}) q
)
select d.shop_id as "shopId", d.subscription_id as "subscriptionId", d.id, d.endpoint_id as "endpointId",
       d.shard, d.url, d.payload_id as "payloadId", p.event_id as "eventId", p.trigger,
       p.api_version as "apiVersion", p.revision, p.traceparent, d.attempts, d.round_attempts as "roundAttempts",
       d.bytes, extract(epoch from d.next_attempt_at)::float8 * 1000 as "dueAtMs",
       extract(epoch from d.queued_at)::float8 * 1000 as "queuedAtMs", d.queued_at::text as round, d.is_retry as "isRetry",
       d.encrypted_secrets as "encryptedSecrets", d.is_failing as "isFailing", p.body
  from due d left join lateral (
         select * from payloads b where b.shop_id = d.shop_id and b.id = d.payload_id offset 0) p on true
 where d.bytes_before < (${most}::float8[])[d.health_class]
 order by d.n, d.nth`;
}

/**
 * The due deliveries of a queue `w`, numbered. A fresh delivery is due whatever its time is, because the clock may have
 * been set back since. Branches of other modes are not executed. The limit stops before the retries when there are
 * enough fresh deliveries.
 */
function dueOfQueue({ except, offsetMs }: Pick<DueNow, 'except' | 'offsetMs'>): Sql {
  const now = sql`now() + ${param(offsetMs)} * interval '1 ms'`;
  const skipped = param(except);
  return sql`
      select r.*, row_number() over () as nth from (
        (select o.* from (
           select * from queue a where w.mode > 0
              and a.shop_id = w.shop_id and a.subscription_id = w.subscription_id order by a.id limit 1) o
          where (not o.is_retry or o.next_attempt_at <= ${now}) and o.id <> all(${skipped}::uuid[]))
        union all
        (select * from queue a where w.mode = 1
            and a.shop_id = w.shop_id and a.subscription_id = w.subscription_id and a.is_retry
            and a.next_attempt_at <= ${now} and a.id <> all(${skipped}::uuid[])
          order by a.next_attempt_at, a.id limit 1)
        union all
        (select * from queue a where w.mode < 2
            and a.shop_id = w.shop_id and a.subscription_id = w.subscription_id and not a.is_retry
            and a.next_attempt_at >= to_timestamp(w.fresh_from / 1000) and a.id <> all(${skipped}::uuid[])
          order by a.next_attempt_at, a.id limit w.most)
        union all
        (select * from queue a where w.mode = 0
            and a.shop_id = w.shop_id and a.subscription_id = w.subscription_id and a.is_retry
            and a.next_attempt_at >= to_timestamp(w.retries_from / 1000)
            and a.next_attempt_at <= ${now} and a.id <> all(${skipped}::uuid[])
          order by a.next_attempt_at, a.id limit w.most)
        limit w.most) r`;
}
