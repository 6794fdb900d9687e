import { z } from 'zod';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { means, nullableId } from '../resources/response-fields.ts';
import { idNumber } from '../views/values.ts';
import type { Trigger } from '../vocabulary.ts';

/** A topic of webhooks: the events that it delivers, and the newest form of its payload. */
export interface TopicShape {
  /** One sentence about the payload, for the portal and docs/delivery.md. */
  readonly about: string;
  readonly triggers: readonly Trigger[];
  /** The fields of the payload, without `topic` and `trigger`. */
  readonly schema: z.ZodRawShape;
  /** Returns these fields for an event; undefined when the event lacks the data for them. */
  build(event: Event, snapshot: Return | undefined): object | undefined;
}

export const shopId = means(z.int(), 'The shop');
export const returnId = means(z.int(), 'The return');

/** The fields about the order of a return. */
export const order = {
  order_id: means(nullableId(), 'Identifier of the order in this service'),
  provider_order_id: means(
    nullableId(),
    'Identifier of the order at the commerce provider; null when unknown',
  ),
};

export function orderOf(snapshot: Return | undefined): object {
  return {
    order_id: idNumber(snapshot?.order?.id ?? 0n),
    provider_order_id: idNumber(snapshot?.order?.providerOrderId ?? 0n),
  };
}

export const known = (schema: z.ZodType, what: string) =>
  means(schema, `${what}; null when unknown`);
