import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type Actor, Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  DeliveriesExhaustedSchema,
  type Event,
  EventSchema,
  SecretRevealedSchema,
  SubscriptionDisabled_Reason,
  SubscriptionDisabledSchema,
  SubscriptionFailingSchema,
} from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { BusRecord } from '../../../services/platform/bus/event-bus.ts';
import { EVENT_SCHEMA_NAME } from '../../../services/platform/outbox/parse.ts';

/** The endpoint and the subscription that an event is about. */
export interface About {
  readonly shopId: bigint;
  readonly endpointId?: bigint;
  readonly id?: bigint;
}

const SYSTEM = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'webhooks', name: 'webhooks' });

/** Events of the webhooks service, as it publishes them. */
export const webhookEvents = {
  failing: (about: About, percent = 50): Event =>
    eventOf('subscription.failing', about, {
      case: 'subscriptionFailing',
      value: create(SubscriptionFailingSchema, {
        ...common(about),
        percent,
        failures: 12,
        failingSince: now(),
        disablesAt: now(),
      }),
    }),
  disabled: (about: About): Event =>
    eventOf('subscription.disabled', about, {
      case: 'subscriptionDisabled',
      value: create(SubscriptionDisabledSchema, {
        ...common(about),
        reason: SubscriptionDisabled_Reason.GONE,
        failures: 1,
      }),
    }),
  exhausted: (about: About): Event =>
    eventOf('delivery.exhausted', about, {
      case: 'deliveriesExhausted',
      value: create(DeliveriesExhaustedSchema, { ...common(about), deliveries: 3 }),
    }),
  revealed: (about: About, actor: Actor, rotated = false): Event => {
    const { subscription } = common(about);
    const value = create(SecretRevealedSchema, { subscription, rotated });
    return eventOf('secret.revealed', about, { case: 'secretRevealed', value }, actor);
  },
};

/** The record of an event, without a signature. */
export function recordOf(event: Event): BusRecord {
  const key = `${event.shopId}:${event.eventId}`;
  return { key, value: toBinary(EventSchema, event), headers: {} };
}

const now = () => timestampFromDate(new Date());

function common({ endpointId = 5n, id = 7n }: About) {
  const place = { topic: 'return', trigger: 'return.closed' };
  const subscription = { id, endpointId, host: 'hooks.example.com', ...place };
  return { subscription, lastError: 'answered 500' } as const;
}

function eventOf(
  trigger: string,
  { shopId }: About,
  detail: Event['detail'],
  actor: Actor = SYSTEM,
): Event {
  return create(EventSchema, {
    eventId: randomUUID(),
    schema: EVENT_SCHEMA_NAME,
    trigger,
    shopId,
    actor,
    detail,
    occurredAt: now(),
  });
}
