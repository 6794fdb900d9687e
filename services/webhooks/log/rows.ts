import { type Param, param, raw, type Sql, sql } from '../../platform/postgres/sql.ts';
import type { DeliveryState } from './delivery.ts';

/** A delivery as the log shows it. */
export interface DeliveryRow {
  readonly id: string;
  readonly subscriptionId: bigint;
  readonly eventId: string;
  readonly trigger: string;
  readonly topic: string;
  readonly state: DeliveryState;
  readonly createdAt: Date;
  /** When the next attempt is due, by the retry clock; null when the delivery does not wait. */
  readonly nextAttemptAt: Date | null;
  readonly apiVersion: string;
  readonly returnId: bigint | null;
  readonly revision: bigint;
  readonly isTest: boolean;
  readonly finishedAt: Date | null;
  readonly body: Buffer | null;
}

export interface AttemptRow {
  readonly number: number;
  readonly startedAt: Date;
  readonly durationMs: number;
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  readonly waitMs: number | null;
  readonly readMs: number | null;
  readonly status: number;
  readonly error: string;
  readonly url: string;
  readonly requestHeaders: string;
  readonly responseExcerpt: string;
  /**
   * Headers of the receiver's response. Empty in lists, which could otherwise exceed the size limit of a gRPC message.
   */
  readonly responseHeaders: string;
}

/** A delivery with its last 50 attempts, oldest first. */
export interface LoggedDelivery {
  readonly row: DeliveryRow;
  readonly attempts: readonly AttemptRow[];
}

/** Maximum size of the payloads in one response. Payloads above it are left out. Bytes. */
const BODIES_BYTES = 16 * 1024 * 1024;

/** SQL for the columns of `deliveries` that {@link hydrated} needs. */
export const LOGGED_COLUMNS = sql`d.id, d.subscription_id, d.payload_id, d.trigger, d.topic, d.is_test, d.ended,
  d.created_at, d.finished_at`;

/**
 * SQL for the state of a delivery of subscription `s`. The state of a delivery that has not ended depends on the
 * subscription.
 */
export const stateOf = (delivery: string): Sql => sql`coalesce(${raw(delivery)}.ended, case
  when s.id is null or s.deleted_at is not null then 'dropped'
  when s.status = 'inactive' then 'held' else 'waiting' end)`;

/** Whether the attempts of deliveries are read, and whether with the headers of their responses. */
export type AttemptsRead = 'none' | 'without headers' | 'with headers';

/** SQL that reads {@link HydratedRow} for the rows of `shown`, which have the {@link LOGGED_COLUMNS} and the state. */
export function hydrated(o: {
  readonly shopId: bigint;
  readonly withBodies: boolean;
  readonly attempts: AttemptsRead;
}): Sql {
  const shop = param(o.shopId);
  const tried =
    o.attempts === 'none'
      ? sql`cross join (select '[]'::json as attempts) tried`
      : attemptsOf(shop, { withHeaders: o.attempts === 'with headers' });
  const body = o.withBodies
    ? sql`case when sum(octet_length(p.body)) over (order by d.id desc) <= ${raw(BODIES_BYTES)} then p.body end`
    : sql`null::bytea`;
  return sql`
select d.id, d.subscription_id as "subscriptionId", p.event_id as "eventId", d.trigger, d.topic, d.state,
       d.created_at as "createdAt", case when d.state = 'waiting' then q.next_attempt_at end as "nextAttemptAt",
       p.api_version as "apiVersion", p.return_id as "returnId", p.revision, d.is_test as "isTest",
       coalesce(d.finished_at, case when d.state = 'dropped' then d.deleted_at end) as "finishedAt",
       ${body} as body, tried.attempts
  from shown d
  join payloads p on p.shop_id = ${shop} and p.id = d.payload_id
  left join queue q on q.shop_id = ${shop} and q.subscription_id = d.subscription_id and q.id = d.id
  ${tried}`;
}

/** Maximum number of attempts of a delivery in a response. */
const SHOWN_ATTEMPTS_MAX = 50;

/** An attempt in the form of JSON from the database. */
type StoredAttempt = Omit<AttemptRow, 'startedAt'> & { readonly startedAt: string };

/**
 * SQL that joins the last attempts of deliveries `d` as JSON, oldest first. So one statement reads a page and its
 * attempts.
 */
function attemptsOf(shop: Param, o: { readonly withHeaders: boolean }): Sql {
  const headers = raw(o.withHeaders ? 'l.response_headers' : `''`);
  return sql`
 cross join lateral (
    select coalesce(json_agg(t order by t.number), '[]') as attempts
      from (
        select l.number, l.started_at as "startedAt", l.duration_ms as "durationMs", l.dns_ms as "dnsMs",
               l.connect_ms as "connectMs", l.tls_ms as "tlsMs", l.wait_ms as "waitMs", l.read_ms as "readMs",
               l.status, l.error, l.url, l.request_headers as "requestHeaders",
               l.response_excerpt as "responseExcerpt", ${headers} as "responseHeaders"
          from attempts l
         where l.shop_id = ${shop} and l.delivery_id = d.id
         order by l.number desc limit ${raw(SHOWN_ATTEMPTS_MAX)}) t) tried`;
}

/** A row of {@link hydrated}. */
export interface HydratedRow extends DeliveryRow {
  readonly attempts: readonly StoredAttempt[];
}

/** The delivery in a row of {@link hydrated}. */
export function logged({ attempts, ...row }: HydratedRow): LoggedDelivery {
  return {
    row,
    attempts: attempts.map((one) => ({ ...one, startedAt: new Date(one.startedAt) })),
  };
}
