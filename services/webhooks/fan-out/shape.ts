import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { shapePayload } from '../../contract/shape.ts';
import { delivers, payloadOf } from '../../contract/views/payload.ts';
import { encodeBody, withoutCustomer } from './without-customer.ts';

/**
 * The bytes of an event for one topic and version; every delivery of them is equal.
 *
 * @param isRedacted leaves out who the customer is.
 * @returns undefined when the topic says nothing about such events.
 * @throws Error when it should but has no snapshot.
 */
export function shapeBody(
  event: Event,
  o: { topic: string; version: string; isRedacted: boolean },
): Uint8Array | undefined {
  if (!delivers(o.topic, event.trigger)) return undefined;
  const payload = event.snapshotOmitted ? undefined : payloadOf(o.topic, event, event.snapshot);
  if (payload === undefined) {
    throw new Error(`event ${event.eventId} lacks what topic ${o.topic} is made of`);
  }
  const shaped = shapePayload(o.version, o.topic, payload);
  return encodeBody(o.isRedacted ? withoutCustomer(o.topic, shaped) : shaped);
}
