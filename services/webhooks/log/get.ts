import type { Queryable } from '../../platform/postgres.ts';
import { raw, sql, unnamed } from '../../platform/sql.ts';
import { rangeOfEvent } from '../delivery-id.ts';
import { deliveryNotFound, webhookIdOf } from './delivery.ts';
import {
  type DeliveryRow,
  hydrated,
  LOGGED,
  type LoggedDelivery,
  stateOf,
  withAttempts,
} from './rows.ts';

/** Maximum number of deliveries of one event in a response: one for each subscription that a shop may have. */
const MAX_RELATED = 100;

/**
 * Returns a delivery with its attempts.
 *
 * @param o.id id of the delivery, without the prefix of a `webhook-id`.
 * @throws DomainError NOT_FOUND.
 */
export async function getDelivery(
  db: Queryable,
  o: { shopId: bigint; id: string; withBody: boolean },
): Promise<LoggedDelivery> {
  const rows = await readRange(db, { ...o, first: o.id, last: o.id });
  const [found] = await withAttempts(db, o.shopId, rows);
  if (!found) throw deliveryNotFound(webhookIdOf(o.id));
  return found;
}

/** Returns the other deliveries of the same event, without their attempts. */
export async function relatedDeliveries(
  db: Queryable,
  o: { shopId: bigint; id: string; eventId: string },
): Promise<LoggedDelivery[]> {
  const rows = await readRange(db, { ...o, ...rangeOfEvent(o.id), withBody: false });
  return rows
    .filter(({ id, eventId }) => id !== o.id && eventId === o.eventId)
    .slice(0, MAX_RELATED)
    .map((row) => ({ row, attempts: [] }));
}

/** Maximum number of payloads that the search for an event reads, newest first. No index has their events. */
const MAX_SEARCHED = 50_000;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Returns the deliveries of an event with their attempts; none when it is unknown, or not among the newest payloads. */
export async function deliveriesOfEvent(
  db: Queryable,
  { shopId, eventId }: { readonly shopId: bigint; readonly eventId: string },
): Promise<LoggedDelivery[]> {
  if (!UUID.test(eventId)) return [];
  const { rows } = await db.query<{ id: string }>(
    `select id from (
       select id, event_id from payloads where shop_id = $1 order by id desc limit ${MAX_SEARCHED}) newest
      where event_id = $2 limit 1`,
    [shopId, eventId],
  );
  const [payload] = rows;
  if (!payload) return [];
  const found = await readRange(db, { shopId, ...rangeOfEvent(payload.id), withBody: false });
  const own = found.filter((row) => row.eventId === eventId.toLowerCase());
  return withAttempts(db, shopId, own);
}

async function readRange(
  db: Queryable,
  o: { shopId: bigint; first: string; last: string; withBody: boolean },
): Promise<DeliveryRow[]> {
  const { rows } = await db.query<DeliveryRow>(
    unnamed(sql`
     with shown as materialized (
       select ${LOGGED}, s.deleted_at, ${stateOf('d')} as state
         from deliveries d
         left join subscriptions s on s.shop_id = d.shop_id and s.id = d.subscription_id
        where d.shop_id = ${o.shopId} and d.id between ${o.first} and ${o.last}
        order by d.id limit ${raw(MAX_RELATED + 1)}
     ) ${hydrated({ shopId: o.shopId, withBodies: o.withBody })}
      order by d.id`),
  );
  return rows;
}
