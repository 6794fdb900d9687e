import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { shapePayload } from '../../contract/shape.ts';
import { delivers, payloadOf } from '../../contract/views/payload.ts';
import { encodeBody, withoutCustomer } from './without-customer.ts';

/**
 * The bytes of an event for one topic and version. All its deliveries have the same bytes.
 *
 * @param isRedacted leaves the customer out.
 * @returns undefined when the topic has no payload for such events.
 * @throws Error when it has one but the snapshot is missing.
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
