import { timeOfEventId } from '../../platform/outbox/event-id.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { param, raw, sql, unnamed } from '../../platform/postgres/sql.ts';
import { deliveryIdOf, rangeOfEvent } from '../delivery-id.ts';
import { deliveryNotFound, parseWebhookId, webhookIdOf } from './delivery.ts';
import {
  type AttemptsRead,
  type HydratedRow,
  hydrated,
  LOGGED_COLUMNS,
  type LoggedDelivery,
  logged,
  stateOf,
} from './rows.ts';

/** Maximum number of deliveries of one event in a response. A shop has at most this many subscriptions. */
const MAX_RELATED = 100;

/**
 * Returns a delivery with its attempts.
 *
 * @param o.id id of the delivery, without the prefix of a `webhook-id`.
 * @throws DomainError NOT_FOUND.
 */
export async function getDelivery(
  db: Queryable,
  o: { readonly shopId: bigint; readonly id: string; readonly withBody: boolean },
): Promise<LoggedDelivery> {
  const { shopId, id, withBody } = o;
  const attempts = 'with headers';
  const [found] = await readRange(db, { shopId, first: id, last: id, withBody, attempts });
  if (!found) throw deliveryNotFound(webhookIdOf(id));
  return logged(found);
}

/**
 * Returns the other deliveries of the same event, without their attempts.
 *
 * @param o.id id of the delivery, without the prefix of a `webhook-id`.
 * @param o.eventId id of the event.
 */
export async function relatedDeliveries(
  db: Queryable,
  o: { readonly shopId: bigint; readonly id: string; readonly eventId: string },
): Promise<LoggedDelivery[]> {
  const range = { shopId: o.shopId, ...rangeOfEvent(o.id) };
  const rows = await readRange(db, { ...range, withBody: false, attempts: 'none' });
  return rows
    .filter(({ id, eventId }) => id !== o.id && eventId === o.eventId)
    .slice(0, MAX_RELATED)
    .map(logged);
}

/**
 * Returns the deliveries of an event, or the delivery with a `webhook-id`, with their attempts; none when there is no such
 * event or delivery. The id of an event contains its time. The ids of its deliveries begin with this time and the
 * event's id. So this reads one range of the primary key.
 */
export async function deliveriesNamed(
  db: Queryable,
  { shopId, name }: { readonly shopId: bigint; readonly name: string },
): Promise<LoggedDelivery[]> {
  const o = { shopId, withBody: false, attempts: 'without headers' } as const;
  const id = parseWebhookId(name);
  if (id !== undefined) return (await readRange(db, { ...o, first: id, last: id })).map(logged);
  const occurredAt = timeOfEventId(name);
  if (!occurredAt) return [];
  const range = rangeOfEvent(deliveryIdOf({ eventId: name, occurredAt }, 0n));
  const found = await readRange(db, { ...o, ...range });
  return found.filter((row) => row.eventId === name.toLowerCase()).map(logged);
}

async function readRange(
  db: Queryable,
  o: {
    readonly shopId: bigint;
    readonly first: string;
    readonly last: string;
    readonly withBody: boolean;
    readonly attempts: AttemptsRead;
  },
): Promise<HydratedRow[]> {
  const { shopId, withBody: withBodies, attempts } = o;
  const { rows } = await db.query<HydratedRow>(
    unnamed(sql`
     with shown as materialized (
       select ${LOGGED_COLUMNS}, s.deleted_at, ${stateOf('d')} as state
         from deliveries d
         left join subscriptions s on s.shop_id = d.shop_id and s.id = d.subscription_id
        where d.shop_id = ${o.shopId} and d.id between ${o.first} and ${o.last}
        order by d.id limit ${raw(MAX_RELATED + 1)}
     ) ${hydrated({ shopId, withBodies, attempts })}
      order by d.id`),
  );
  return rows;
}

/** Maximum number of test events of each subscription that are searched for one in the version, newest first. */
const MAX_SEARCHED = 100;

/**
 * Returns the last test event in a version of each subscription that is not deleted, with its attempts, newest first.
 * Subscriptions without one among their newest test events are left out. One statement, over indexes only.
 */
export async function lastTests(
  db: Queryable,
  { shopId, version }: { readonly shopId: bigint; readonly version: string },
): Promise<LoggedDelivery[]> {
  const shop = param(shopId);
  // The index of test events is on each day of the log. Without the inner limits, PostgreSQL may read all payloads.
  const { rows } = await db.query<HydratedRow>(
    unnamed(sql`
     with shown as materialized (
       select ${LOGGED_COLUMNS}, s.deleted_at, ${stateOf('d')} as state
         from subscriptions s
        cross join lateral (
          select t.* from (
            select * from deliveries l
             where l.shop_id = ${shop} and l.subscription_id = s.id and l.is_test
             order by l.id desc limit ${raw(MAX_SEARCHED)}) t
           cross join lateral (
             select p.api_version from payloads p
              where p.shop_id = ${shop} and p.id = t.payload_id limit 1) v
           where v.api_version = ${version}
           order by t.id desc limit 1) d
        where s.shop_id = ${shop} and s.deleted_at is null
     ) ${hydrated({ shopId, withBodies: false, attempts: 'without headers' })}
      order by d.id desc`),
  );
  return rows.map(logged);
}
