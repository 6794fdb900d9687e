import { hash } from 'node:crypto';
import { type Sql, sql } from '../platform/postgres/sql.ts';

/** The id (a UUID) and the time of an event. The ids of its deliveries are made of both. */
export interface EventKey {
  readonly eventId: string;
  readonly occurredAt: Date;
}

/** First and last id of a range, both included. */
export interface IdRange {
  readonly first: string;
  readonly last: string;
}

const DAY_MS = 24 * 3_600_000;
const MAX_MS = 2 ** 48 - 1;
/** The last bits of an id, which differ between the deliveries of one event. */
const OWN_BITS = 30;
const OWN_MASK = 2 ** OWN_BITS - 1;

/**
 * Returns the id of an event's delivery to a subscription. It is always the same, so that a duplicate of the event is
 * not delivered again.
 *
 * The id is a UUID of version 8 (RFC 9562) that sorts by time. It has 48 bits of the event's time in milliseconds, 44
 * bits of a hash of the event's id, and 30 bits of the subscription's id. The log has one partition for each day, which
 * is a range of ids.
 *
 * @throws RangeError when the subscription's id needs more than 30 bits.
 */
export function deliveryIdOf(event: EventKey, subscriptionId: bigint): string {
  const own = Number(subscriptionId);
  if (!(own >= 0 && own <= OWN_MASK)) throw new RangeError(`no subscription ${subscriptionId}`);
  return idOf(event, own);
}

/**
 * Returns the id of an event's body for one topic and version. It begins with the same 92 bits as the deliveries of the
 * event.
 */
export function payloadIdOf(event: EventKey, topic: string, version: string): string {
  return idOf(event, Number.parseInt(digest(`${topic} ${version}`).slice(0, 8), 16) >>> 2);
}

/** Returns the time of the event of a delivery. */
export function occurredAt(id: string): Date {
  return new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16));
}

function idOf({ eventId, occurredAt }: EventKey, own: number): string {
  const timeMs = Math.min(Math.max(occurredAt.getTime() || 0, 0), MAX_MS);
  const time = timeMs.toString(16).padStart(12, '0');
  const eventHash = digest(eventId.toLowerCase());
  const low = Number.parseInt(eventHash.slice(3, 11), 16);
  const high = hex32((0x8000_0000 | (low >>> 2)) >>> 0);
  const rest = hex32((((low & 3) << OWN_BITS) | own) >>> 0);
  return `${time.slice(0, 8)}-${time.slice(8)}-8${eventHash.slice(0, 3)}-${high.slice(0, 4)}-${high.slice(4)}${rest}`;
}

function digest(text: string): string {
  return hash('sha256', text, 'hex');
}

function hex32(value: number): string {
  return value.toString(16).padStart(8, '0');
}

/** Returns the range of ids of one event's deliveries and bodies. @param id id of any of them. */
export function rangeOfEvent(id: string): IdRange {
  const start = id.slice(0, -8);
  const rest = Number.parseInt(id.slice(-8), 16);
  return {
    first: start + hex32((rest & ~OWN_MASK) >>> 0),
    last: start + hex32((rest | OWN_MASK) >>> 0),
  };
}

/**
 * Returns SQL for {@link rangeOfEvent}: a query for `first` and `last` of the events of some ids. Each event occurs
 * once.
 *
 * @param ids SQL of a query with the column `id`.
 */
export function rangesOfEvents(ids: Sql): Sql {
  // The last 30 bits of an id begin in its 29th digit, which also has two bits of the event. With the 30 bits set to 0,
  // this digit is 0, 4, 8 or c.
  const eventDigit = sql`translate(substr(w.id::text, 29, 1), '0123456789abcdef', '000044448888cccc')`;
  return sql`
select (e.start || e.digit || '0000000')::uuid as first,
       (e.start || translate(e.digit, '048c', '37bf') || 'fffffff')::uuid as last
  from (select distinct left(w.id::text, 28) as start, ${eventDigit} as digit from (${ids}) w) e`;
}

/** Returns the range of ids of a UTC day. `first` belongs to it, `end` does not. @param day the start of the day. */
export function rangeOfDay(day: Date): { first: string; end: string } {
  return { first: startOfId(day.getTime()), end: startOfId(day.getTime() + DAY_MS) };
}

function startOfId(at: number): string {
  const time = at.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}

/** Returns the start of the UTC day whose partition has the id. */
export function dayOf(id: string): Date {
  const timeMs = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  return new Date(timeMs - (timeMs % DAY_MS));
}
