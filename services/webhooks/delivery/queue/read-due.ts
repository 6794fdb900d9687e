import type { Queryable } from '../../../platform/postgres/postgres.ts';
import { named, param, raw, rowsOf, type Sql, sql } from '../../../platform/postgres/sql.ts';
import { isSandboxShop } from '../../subscriptions/sandbox.ts';
import type { HealthClass } from '../scheduler/capacity.ts';
import type { QueueRef } from './queue-ref.ts';

/** A due delivery, with everything that its attempt needs. */
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
  /** Number of earlier attempts of the delivery. */
  readonly attempts: number;
  /** Number of earlier attempts since the delivery was queued last. */
  readonly roundAttempts: number;
  /** Length of the body. Bytes. */
  readonly bytes: number;
  /** When it is due, by the retry clock. Milliseconds. */
  readonly dueAtMs: number;
  readonly queuedAtMs: number;
  /**
   * `queuedAtMs` as a text with microseconds. It identifies the round, because it is different each time that a
   * delivery is queued.
   */
  readonly round: string;
  /** False for a fresh delivery, true for a retry or replay. */
  readonly isRetry: boolean;
  /**
   * The valid signing secrets, newest first, encrypted as they are stored; null when there is none. See `signingKeys`.
   */
  readonly encryptedSecrets: string | null;
  /** Whether the shop was a sandbox when the delivery was created (`fan-out.ts`) or read from the queue. */
  readonly isSandbox: boolean;
  /** Whether the event is a test event. */
  readonly isTest: boolean;
  /** Whether the subscription has failed since its last success. */
  readonly isFailing: boolean;
  /** Null when the body was removed during the wait of the delivery. */
  readonly body: Buffer | null;
}

/**
 * Which deliveries to read. `all`: all that are due. `any-probe`: the oldest of those that are due. `oldest-probe`: the
 * oldest of all deliveries, when it is due.
 */
export type ReadMode = 'all' | 'any-probe' | 'oldest-probe';

// The statement uses the positions in these lists. Health classes are counted from 1, modes from 0.
const HEALTH_CLASSES: readonly HealthClass[] = ['trusted', 'new', 'slow', 'failing'];
const MODES: readonly ReadMode[] = ['all', 'any-probe', 'oldest-probe'];

export interface QueueRead extends QueueRef {
  /** The endpoint that the queue had when it was loaded. A queue that has moved to another endpoint is skipped. */
  readonly endpointId: bigint;
  readonly limit: number;
  readonly mode: ReadMode;
  /** Health class of the endpoint. It selects the limit of bytes. */
  readonly healthClass: HealthClass;
  /** The times from which the read starts, by the retry clock. 0 is the start of the queue. Milliseconds. */
  readonly freshFromMs: number;
  readonly retriesFromMs: number;
}

interface ReadOptions {
  /** Ids of deliveries in flight, which are left out. */
  readonly except: readonly string[];
  /**
   * Maximum number of bytes of bodies in each health class, over all queues. The delivery that exceeds it is the last
   * one that is read.
   */
  readonly maxBytes: Readonly<Record<HealthClass, number>>;
  /** Offset of the retry clock. */
  readonly offsetMs: number;
}

/**
 * Reads the due deliveries of each queue, fresh deliveries before retries. It costs a few index accesses for each
 * queue, whatever the length of the queue is.
 *
 * @returns the deliveries, one queue after another.
 */
export async function readDue(
  db: Queryable,
  reads: readonly QueueRead[],
  o: ReadOptions,
): Promise<Due[]> {
  return (await db.query<Due>(named('read-due', readStatement(reads, o)))).rows;
}

/** SQL for the valid signing secrets of a queue's subscription: encrypted, newest first. See {@link Due}. */
export const encryptedSecretsOf = (queue: string): Sql => sql`(
  select string_agg(c.key_id || ':' || encode(c.sealed, 'hex'), ',' order by c.id desc)
    from secrets c
   where c.shop_id = ${raw(queue)}.shop_id and c.subscription_id = ${raw(queue)}.subscription_id
     and (c.expires_at is null or c.expires_at > now()))`;

const readRows = rowsOf<QueueRead>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
  endpoint_id: ['bigint', ({ endpointId }) => endpointId],
  max_count: ['integer', ({ limit }) => limit],
  mode: ['smallint', ({ mode }) => MODES.indexOf(mode)],
  fresh_from: ['float8', ({ freshFromMs }) => freshFromMs],
  retries_from: ['float8', ({ retriesFromMs }) => retriesFromMs],
  health_class: ['smallint', ({ healthClass }) => HEALTH_CLASSES.indexOf(healthClass) + 1],
});

// `offset 0` makes PostgreSQL read each body by its key, in the partition of its day, whatever the statistics are.
function readStatement(reads: readonly QueueRead[], o: ReadOptions): Sql {
  const maxBytes = HEALTH_CLASSES.map((healthClass) => o.maxBytes[healthClass]);
  return sql`
with requested as materialized (
  select input.*, sq.shard, e.url, s.failures > 0 as is_failing, ${encryptedSecretsOf('input')} as encrypted_secrets,
         ${isSandboxShop('input')} as is_sandbox
    from ${readRows('input', reads, 'n')}
    join subscription_queues sq on sq.shop_id = input.shop_id and sq.subscription_id = input.subscription_id
                and sq.endpoint_id = input.endpoint_id and sq.is_open and sq.expire_before is null
    join subscriptions s on s.shop_id = input.shop_id and s.id = input.subscription_id
    join endpoints e on e.shop_id = input.shop_id and e.id = input.endpoint_id
), due as materialized (
  select w.n, w.health_class, w.shard, w.url, w.is_failing, w.encrypted_secrets, w.is_sandbox, w.endpoint_id, q.*,
         sum(q.bytes) over (partition by w.health_class order by w.n, q.nth) - q.bytes as bytes_before
    from requested w cross join lateral (${dueOfQueue(o)}) q
)
select d.shop_id as "shopId", d.subscription_id as "subscriptionId", d.id, d.endpoint_id as "endpointId",
       d.shard, d.url, d.payload_id as "payloadId", p.event_id as "eventId", p.trigger,
       p.api_version as "apiVersion", p.revision, p.traceparent, d.attempts, d.round_attempts as "roundAttempts",
       d.bytes, extract(epoch from d.next_attempt_at)::float8 * 1000 as "dueAtMs",
       extract(epoch from d.queued_at)::float8 * 1000 as "queuedAtMs", d.queued_at::text as round, d.is_retry as "isRetry",
       d.encrypted_secrets as "encryptedSecrets", d.is_sandbox as "isSandbox", coalesce(p.is_test, false) as "isTest",
       d.is_failing as "isFailing", p.body
  from due d left join lateral (
         select * from payloads b where b.shop_id = d.shop_id and b.id = d.payload_id offset 0) p on true
 where d.bytes_before < (${maxBytes}::float8[])[d.health_class]
 order by d.n, d.nth`;
}

/**
 * SQL for the due deliveries of a queue `w`, with numbers. A fresh delivery is always due, even when its time is in the
 * future, because the clock may have been set back. PostgreSQL runs only the branch of the mode. When there are enough
 * fresh deliveries, the limit stops before the retries.
 */
function dueOfQueue({ except, offsetMs }: Pick<ReadOptions, 'except' | 'offsetMs'>): Sql {
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
          order by a.next_attempt_at, a.id limit w.max_count)
        union all
        (select * from queue a where w.mode = 0
            and a.shop_id = w.shop_id and a.subscription_id = w.subscription_id and a.is_retry
            and a.next_attempt_at >= to_timestamp(w.retries_from / 1000)
            and a.next_attempt_at <= ${now} and a.id <> all(${skipped}::uuid[])
          order by a.next_attempt_at, a.id limit w.max_count)
        limit w.max_count) r`;
}
