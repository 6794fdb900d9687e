import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { shapePayload } from '../../contract/shape.ts';
import { delivers, payloadOf } from '../../contract/topics/topics.ts';

/**
 * Returns the body of an event for one topic and version. Undefined when the topic does not deliver the trigger of the
 * event.
 *
 * @param o.isRedacted whether the customer is left out.
 * @throws Error when the event lacks the data of the topic, such as the snapshot of the return.
 */
export function shapeBody(
  event: Event,
  o: { topic: string; version: string; isRedacted: boolean },
): Uint8Array | undefined {
  if (!delivers(o.topic, event.trigger)) return undefined;
  const payload = event.snapshotOmitted ? undefined : payloadOf(o.topic, event, event.snapshot);
  if (payload === undefined) {
    throw new Error(`event ${event.eventId} lacks the data of topic ${o.topic}`);
  }
  const shaped = shapePayload(o.version, o.topic, payload);
  return encodeBody(o.isRedacted ? withoutCustomer(o.topic, shaped) : shaped);
}

/** Fields with data of the customer, by topic. {@link withoutCustomer} sets them to null. */
const CUSTOMER_FIELDS: Readonly<Record<string, readonly string[]>> = {
  return: ['customer', 'customer_email', 'customer_first_name', 'customer_last_name'],
  giftcard: ['email', 'first_name', 'last_name'],
  withdrawal: ['name', 'email'],
};

/** Returns a payload without names, e-mail addresses, postal addresses and uploads. Keeps all keys. */
export function withoutCustomer(topic: string, payload: object): object {
  const nulls = (CUSTOMER_FIELDS[topic] ?? []).map((field) => [field, null]);
  const changed: Record<string, unknown> = { ...payload, ...Object.fromEntries(nulls) };
  if (topic === 'return' && Array.isArray(changed.line_items)) {
    changed.line_items = changed.line_items.map((line: object) => ({
      ...line,
      customer_uploads: { images: [], media: [] },
    }));
  }
  if (topic === 'label.request' && isObject(changed.addresses)) {
    changed.addresses = { ...changed.addresses, origin: null };
  }
  return changed;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Returns a stored body without the customer, see {@link withoutCustomer}. */
export function bodyWithoutCustomer(topic: string, body: Uint8Array): Uint8Array {
  // This service encoded the bytes, so they are a JSON object.
  const payload: object = JSON.parse(Buffer.from(body).toString('utf8'));
  return encodeBody(withoutCustomer(topic, payload));
}

function encodeBody(payload: object): Uint8Array {
  return Buffer.from(JSON.stringify(payload));
}
