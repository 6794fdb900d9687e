import type { Queryable } from '../../platform/postgres.ts';
import { param, raw, type Sql, sql } from '../../platform/sql.ts';
import type { DeliveryState } from './delivery.ts';

/** A delivery in the form of the log. */
export interface DeliveryRow {
  readonly id: string;
  readonly subscriptionId: bigint;
  readonly eventId: string;
  readonly trigger: string;
  readonly topic: string;
  readonly state: DeliveryState;
  readonly createdAt: Date;
  /** By the retry clock; null when the delivery does not wait. */
  readonly nextAttemptAt: Date | null;
  readonly apiVersion: string;
  readonly returnId: bigint | null;
  readonly revision: bigint;
  readonly isTest: boolean;
  readonly finishedAt: Date | null;
  readonly body: Buffer | null;
}

export interface AttemptRow {
  readonly deliveryId: string;
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
  /** Empty in lists, whose responses would otherwise be larger than a message. */
  readonly responseHeaders: string;
}

/** A delivery with its last 50 attempts, oldest first. */
export interface LoggedDelivery {
  readonly row: DeliveryRow;
  readonly attempts: readonly AttemptRow[];
}

/** Maximum size of the payloads in one response. Later payloads are left out. */
const BODIES_BYTES = 16 * 1024 * 1024;

/** SQL for the columns of `deliveries` that {@link hydrated} needs. */
export const LOGGED = sql`d.id, d.subscription_id, d.payload_id, d.trigger, d.topic, d.is_test, d.ended,
  d.created_at, d.finished_at`;

/** SQL for the state of a delivery of subscription `s`. The state of a queued delivery depends on the subscription. */
export const stateOf = (delivery: string): Sql => sql`coalesce(${raw(delivery)}.ended, case
  when s.id is null or s.deleted_at is not null then 'dropped'
  when s.status = 'inactive' then 'held' else 'waiting' end)`;

/** SQL that reads the columns of the log for the rows of `shown`, which have the {@link LOGGED} columns and the state. */
export function hydrated(o: { shopId: bigint; withBodies: boolean }): Sql {
  const shop = param(o.shopId);
  const body = o.withBodies
    ? sql`case when sum(octet_length(p.body)) over (order by d.id desc) <= ${raw(BODIES_BYTES)} then p.body end`
    : sql`null::bytea`;
  return sql`
select d.id, d.subscription_id as "subscriptionId", p.event_id as "eventId", d.trigger, d.topic, d.state,
       d.created_at as "createdAt", case when d.state = 'waiting' then q.next_attempt_at end as "nextAttemptAt",
       p.api_version as "apiVersion", p.return_id as "returnId", p.revision, d.is_test as "isTest",
       coalesce(d.finished_at, case when d.state = 'dropped' then d.deleted_at end) as "finishedAt",
       ${body} as body
  from shown d
  join payloads p on p.shop_id = ${shop} and p.id = d.payload_id
  left join queue q on q.shop_id = ${shop} and q.subscription_id = d.subscription_id and q.id = d.id`;
}

/**
 * Adds the attempts of deliveries, with one statement.
 *
 * @param o.withHeaders whether to read the headers of the responses.
 */
export async function withAttempts(
  db: Queryable,
  o: { readonly shopId: bigint; readonly withHeaders: boolean },
  deliveries: readonly DeliveryRow[],
): Promise<LoggedDelivery[]> {
  if (deliveries.length === 0) return [];
  const { rows } = await db.query<AttemptRow>(
    `select a.delivery_id as "deliveryId", a.number, a.started_at as "startedAt", a.duration_ms as "durationMs",
            a.dns_ms as "dnsMs", a.connect_ms as "connectMs", a.tls_ms as "tlsMs", a.wait_ms as "waitMs",
            a.read_ms as "readMs", a.status, a.error, a.url, a.request_headers as "requestHeaders",
            a.response_excerpt as "responseExcerpt",
            case when $3::boolean then a.response_headers else '' end as "responseHeaders"
       from unnest($2::uuid[]) as requested (id)
      cross join lateral (
        select * from attempts l where l.shop_id = $1 and l.delivery_id = requested.id
         order by l.number desc limit 50) a
      order by a.delivery_id, a.number`,
    [o.shopId, deliveries.map((delivery) => delivery.id), o.withHeaders],
  );
  const byDelivery = Map.groupBy(rows, ({ deliveryId }) => deliveryId);
  return deliveries.map((row) => ({ row, attempts: byDelivery.get(row.id) ?? [] }));
}
