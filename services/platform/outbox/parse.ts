import { fromBinary } from '@bufbuild/protobuf';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';

/** The name of the schema of events. There is only one so far. */
export const EVENT_SCHEMA_NAME = 'rms.events.v1';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Decodes the event of a record. @throws Error when the bytes are not an event of this schema. */
export function parseEvent(value: Uint8Array): Event {
  const event = fromBinary(EventSchema, value);
  if (event.schema !== EVENT_SCHEMA_NAME) throw new Error(`unknown schema '${event.schema}'`);
  if (!UUID.test(event.eventId)) throw new Error('the event has no id');
  if (event.shopId < 1n) throw new Error('the event has no shop');
  return event;
}
