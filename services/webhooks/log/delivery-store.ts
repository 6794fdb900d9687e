import type pg from 'pg';
import { invalidField } from '../../platform/errors.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { type DeliveryState, deliveryNotFound, parseWebhookId, stateForbids } from './delivery.ts';

/** A delivery as the log shows it. */
export interface DeliveryRow {
  readonly id: string;
  readonly position: bigint;
  readonly subscriptionId: bigint;
  readonly eventId: string;
  readonly trigger: string;
  readonly topic: string;
  readonly state: DeliveryState;
  readonly createdAt: Date;
  readonly nextAttemptAt: Date | null;
  readonly apiVersion: string;
  readonly returnId: bigint | null;
  readonly isTest: boolean;
  readonly finishedAt: Date | null;
  readonly body: Buffer | null;
}

export interface AttemptRow {
  readonly deliveryId: string;
  readonly number: number;
  readonly startedAt: Date;
  readonly durationMs: number;
  readonly status: number;
  readonly error: string;
  readonly url: string;
  readonly requestHeaders: string;
  readonly responseExcerpt: string;
}

/** A delivery with its last 50 attempts, oldest first. */
export interface LoggedDelivery {
  readonly row: DeliveryRow;
  readonly attempts: readonly AttemptRow[];
}

export interface DeliveryFilter {
  readonly shopId: bigint;
  readonly subscriptionId: bigint | null;
  readonly states: readonly string[];
  readonly trigger: string;
  readonly returnId: bigint | null;
  /** Of the previous page; empty for the first. */
  readonly cursor: string;
  readonly limit: number;
  readonly withBodies: boolean;
}

const COLUMNS = `d.id, d.position, d.subscription_id as "subscriptionId", d.event_id as "eventId", d.trigger,
  d.topic, d.state, d.created_at as "createdAt", d.next_attempt_at as "nextAttemptAt",
  d.api_version as "apiVersion", d.return_id as "returnId", d.is_test as "isTest", d.finished_at as "finishedAt"`;

/** A page of a shop's deliveries, newest first, and the cursor of the next. */
export function listDeliveries(
  pool: pg.Pool,
  filter: DeliveryFilter,
): Promise<{ deliveries: LoggedDelivery[]; nextCursor: string }> {
  return inTransaction(pool, async (tx) => {
    // A delivery and its attempts are of one moment.
    await tx.query('set transaction isolation level repeatable read, read only');
    const rows = await selectPage(tx, filter);
    const page = rows.slice(0, filter.limit);
    const last = rows.length > filter.limit ? page.at(-1) : undefined;
    return {
      deliveries: await withAttempts(tx, filter.shopId, page),
      nextCursor: last ? last.position.toString(36) : '',
    };
  });
}

/** One more than the page, to know whether another follows. */
async function selectPage(tx: Queryable, filter: DeliveryFilter): Promise<DeliveryRow[]> {
  const { rows } = await tx.query<DeliveryRow>(
    `select ${COLUMNS}, ${filter.withBodies ? 'p.body' : 'null::bytea as body'}
       from deliveries d left join payloads p on p.shop_id = d.shop_id and p.id = d.payload_id
      where d.shop_id = $1 and ($2::bigint is null or d.subscription_id = $2)
        and (cardinality($3::text[]) = 0 or d.state = any($3)) and ($4 = '' or d.trigger = $4)
        and ($5::bigint is null or d.return_id = $5) and ($6::bigint is null or d.position < $6)
      order by d.position desc limit $7`,
    [
      filter.shopId,
      filter.subscriptionId,
      filter.states,
      filter.trigger,
      filter.returnId,
      positionOf(filter.cursor),
      filter.limit + 1,
    ],
  );
  return rows;
}

function positionOf(cursor: string): bigint | null {
  if (cursor === '') return null;
  const position = Number.parseInt(cursor, 36);
  if (!/^[0-9a-z]{1,11}$/.test(cursor) || !Number.isSafeInteger(position)) {
    throw invalidField('cursor', 'must be the cursor of a previous page');
  }
  return BigInt(position);
}

async function withAttempts(
  db: Queryable,
  shopId: bigint,
  deliveries: readonly DeliveryRow[],
): Promise<LoggedDelivery[]> {
  const { rows } = await db.query<AttemptRow>(
    `select a.delivery_id as "deliveryId", a.number, a.started_at as "startedAt", a.duration_ms as "durationMs",
            a.status, a.error, a.url, a.request_headers::text as "requestHeaders",
            a.response_excerpt as "responseExcerpt"
       from unnest($2::uuid[]) as wanted (id)
      cross join lateral (
        select * from attempts l where l.shop_id = $1 and l.delivery_id = wanted.id
         order by l.number desc limit 50) a
      order by a.delivery_id, a.number`,
    [shopId, deliveries.map((delivery) => delivery.id)],
  );
  return deliveries.map((row) => ({
    row,
    attempts: rows.filter((attempt) => attempt.deliveryId === row.id),
  }));
}

/** @throws DomainError NOT_FOUND. */
export async function getDelivery(
  db: Queryable,
  shopId: bigint,
  id: string,
): Promise<LoggedDelivery> {
  const { rows } = await db.query<DeliveryRow>(
    `select ${COLUMNS}, null::bytea as body from deliveries d where d.shop_id = $1 and d.id = $2`,
    [shopId, id],
  );
  const [found] = await withAttempts(db, shopId, rows);
  if (!found) throw deliveryNotFound(id);
  return found;
}

interface Replayable {
  readonly state: DeliveryState;
  readonly isInFlight: boolean;
  readonly status: 'active' | 'inactive';
  readonly isDeleted: boolean;
  readonly endpointId: bigint;
  readonly hasBody: boolean;
}

/**
 * Starts a finished delivery anew, with the whole schedule: same `webhook-id`, same bytes, to the
 * subscription's present address. Behind an inactive subscription it is held.
 *
 * @param o.offsetMs of the retry clock.
 * @throws DomainError NOT_FOUND; FAILED_PRECONDITION when it waits already, its payload is gone or
 *   its subscription was deleted.
 */
export function replayDelivery(
  pool: pg.Pool,
  o: { shopId: bigint; webhookId: string; offsetMs: number },
): Promise<LoggedDelivery> {
  const id = parseWebhookId(o.webhookId);
  if (id === undefined) throw deliveryNotFound(o.webhookId);
  return inTransaction(pool, async (tx) => {
    const found = await lockForReplay(tx, o.shopId, id);
    if (!found) throw deliveryNotFound(o.webhookId);
    requireReplayable(found);
    await tx.query(
      `update deliveries
          set state = case when $4 then 'waiting' else 'held' end, endpoint_id = $3, round_attempts = 0,
              next_attempt_at = now() + $5 * interval '1 ms', finished_at = null,
              held_since = case when $4 then null else now() + $5 * interval '1 ms' end
        where shop_id = $1 and id = $2`,
      [o.shopId, id, found.endpointId, found.status === 'active', o.offsetMs],
    );
    return getDelivery(tx, o.shopId, id);
  });
}

/**
 * The subscription is locked first, as everywhere, and stays as it is until the commit. So does the
 * payload: a redaction at this moment is waited for, and then seen, or waits itself.
 */
async function lockForReplay(
  tx: Queryable,
  shopId: bigint,
  id: string,
): Promise<Replayable | undefined> {
  await tx.query(
    `select from subscriptions s
      where s.shop_id = $1 and s.id = (select subscription_id from deliveries where shop_id = $1 and id = $2)
        for share`,
    [shopId, id],
  );
  const { rows } = await tx.query<Replayable>(
    `select d.state, d.lease_token is not null as "isInFlight", s.status, s.deleted_at is not null as "isDeleted",
            s.endpoint_id as "endpointId", p.body is not null as "hasBody"
       from deliveries d
       join subscriptions s on s.shop_id = d.shop_id and s.id = d.subscription_id
       join payloads p on p.shop_id = d.shop_id and p.id = d.payload_id
      where d.shop_id = $1 and d.id = $2
        for update of d for share of p`,
    [shopId, id],
  );
  return rows[0];
}

function requireReplayable(found: Replayable): void {
  if (found.isDeleted) throw stateForbids('the subscription of this delivery was deleted');
  if (found.isInFlight || found.state === 'waiting' || found.state === 'held') {
    throw stateForbids('the delivery is waiting already');
  }
  if (!found.hasBody) throw stateForbids('the payload of this delivery is gone');
}
