import { fromBinary, toJson } from '@bufbuild/protobuf';
import { EventSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import type { EventBus } from '../../services/platform/bus/event-bus.ts';

/** Maximum number of stored events; the oldest are dropped. */
const MAX_EVENTS = 20_000;

/** A published event, as the control server returns it. */
export interface TappedEvent {
  /** Grows by one per event; the value for `after`. */
  readonly position: number;
  readonly topic: string;
  readonly key: string;
  readonly event: unknown;
}

export interface TappedBus {
  readonly bus: EventBus;
  /** The events published after this position, oldest first. */
  since(position: number): readonly TappedEvent[];
}

/** A bus that stores the published events, for `GET /events` of the control server. */
export function tapBus(bus: EventBus): TappedBus {
  // Stored as bytes; as JSON, thousands of events would need several times the memory.
  const events: (Omit<TappedEvent, 'event'> & { readonly value: Uint8Array })[] = [];
  let position = 0;
  return {
    bus: {
      ...bus,
      async publish(topic, records) {
        await bus.publish(topic, records);
        for (const { key, value } of records) {
          position += 1;
          events.push({ position, topic, key, value });
        }
        if (events.length > MAX_EVENTS) events.splice(0, events.length - MAX_EVENTS);
      },
    },
    since: (after) =>
      events
        .filter((event) => event.position > after)
        .map(({ value, ...about }) => ({
          ...about,
          event: toJson(EventSchema, fromBinary(EventSchema, value)),
        })),
  };
}
