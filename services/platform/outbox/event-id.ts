import { randomUUID } from 'node:crypto';

/** The largest time that fits into an id: 48 bits of milliseconds. */
const MAX_MS = 2 ** 48 - 1;

/**
 * Returns a new id of an event: a UUID of version 7 (RFC 9562, 5.7). It begins with the time of the event in
 * milliseconds. So in a table that is sorted by this time, an event is found by its id without an index of ids.
 *
 * @param rest a UUID. Its last 74 random bits become those of the id.
 */
export function eventIdAt(occurredAt: Date, rest: string = randomUUID()): string {
  const ms = Math.min(Math.max(occurredAt.getTime() || 0, 0), MAX_MS);
  const time = ms.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(15)}`;
}

/** Returns the time of the event with this id. Undefined for a text that is not such an id. */
export function timeOfEventId(eventId: string): Date | undefined {
  if (!EVENT_ID.test(eventId)) return undefined;
  return new Date(Number.parseInt(eventId.slice(0, 8) + eventId.slice(9, 13), 16));
}

const EVENT_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
