import { hash } from 'node:crypto';

/** The parts of an id: the event's id (a UUID) and time. */
export interface EventKey {
  readonly eventId: string;
  readonly occurredAt: Date;
}

/** Least and greatest id, both included. */
export interface IdRange {
  readonly first: string;
  readonly last: string;
}

const DAY_MS = 24 * 3_600_000;
const MAX_MS = 2 ** 48 - 1;
/** Number of bits that differ between the ids of one event: the last 30. */
const OWN_BITS = 30;
const OWN_MASK = 2 ** OWN_BITS - 1;

/**
 * The id of an event's delivery to a subscription. It is always the same, so a repeated event is not delivered again.
 *
 * A UUID of version 8 (RFC 9562) that sorts by time: 48 bits of milliseconds of the event, 44 bits of the hash of its
 * id, 30 bits of the subscription. The partitions of the log, one per day, are ranges of ids.
 *
 * @throws RangeError when the subscription's id needs more than 30 bits.
 */
export function deliveryIdOf(event: EventKey, subscriptionId: bigint): string {
  const own = Number(subscriptionId);
  if (!(own >= 0 && own <= OWN_MASK)) throw new RangeError(`no subscription ${subscriptionId}`);
  return idOf(event, own);
}

/** The id of an event's body for one topic and version. It shares its first 92 bits with the deliveries. */
export function payloadIdOf(event: EventKey, topic: string, version: string): string {
  return idOf(event, Number.parseInt(digest(`${topic} ${version}`).slice(0, 8), 16) >>> 2);
}

function idOf({ eventId, occurredAt }: EventKey, own: number): string {
  const at = Math.min(Math.max(occurredAt.getTime() || 0, 0), MAX_MS);
  const time = at.toString(16).padStart(12, '0');
  const sum = digest(eventId.toLowerCase());
  const low = Number.parseInt(sum.slice(3, 11), 16);
  const high = hex32((0x8000_0000 | (low >>> 2)) >>> 0);
  const rest = hex32((((low & 3) << OWN_BITS) | own) >>> 0);
  return `${time.slice(0, 8)}-${time.slice(8)}-8${sum.slice(0, 3)}-${high.slice(0, 4)}-${high.slice(4)}${rest}`;
}

function digest(text: string): string {
  return hash('sha256', text, 'hex');
}

function hex32(value: number): string {
  return value.toString(16).padStart(8, '0');
}

/** All deliveries (or bodies) of the event that this id of a delivery or body belongs to. */
export function rangeOfEvent(id: string): IdRange {
  const start = id.slice(0, -8);
  const rest = Number.parseInt(id.slice(-8), 16);
  return {
    first: start + hex32((rest & ~OWN_MASK) >>> 0),
    last: start + hex32((rest | OWN_MASK) >>> 0),
  };
}

/** The range of ids of a UTC day, given by its first moment: `first` is included, `end` is not. */
export function rangeOfDay(day: Date): { first: string; end: string } {
  return { first: startOfId(day.getTime()), end: startOfId(day.getTime() + DAY_MS) };
}

function startOfId(at: number): string {
  const time = at.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}

/** The UTC day whose partition holds the id, as its first moment. */
export function dayOf(id: string): Date {
  const at = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  return new Date(at - (at % DAY_MS));
}
