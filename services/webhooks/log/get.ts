import { timeOfEventId } from '../../platform/outbox/event-id.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { raw, sql, unnamed } from '../../platform/sql.ts';
import { deliveryIdOf, rangeOfEvent } from '../delivery-id.ts';
import { deliveryNotFound, webhookIdOf } from './delivery.ts';
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
 * Returns the deliveries of an event with their attempts, or none when the event is unknown. The id of an event
 * contains its time. The ids of its deliveries begin with this time and the event's id. So this reads one range of the
 * primary key.
 */
export async function deliveriesOfEvent(
  db: Queryable,
  { shopId, eventId }: { readonly shopId: bigint; readonly eventId: string },
): Promise<LoggedDelivery[]> {
  const occurredAt = timeOfEventId(eventId);
  if (!occurredAt) return [];
  const range = rangeOfEvent(deliveryIdOf({ eventId, occurredAt }, 0n));
  const attempts = 'without headers';
  const found = await readRange(db, { shopId, ...range, withBody: false, attempts });
  return found.filter((row) => row.eventId === eventId.toLowerCase()).map(logged);
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
