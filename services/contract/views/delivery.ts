import {
  type Attempt,
  type AttemptTiming,
  type Delivery,
  DeliveryStateSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { DeliveryObject, DeliveryPage } from '../resources/delivery.ts';
import { DELIVERY_STATES, TOPICS, TRIGGERS } from '../vocabulary.ts';
import { idNumber, iso, requiredIso, textOrNull, word } from './values.ts';

/**
 * A delivery as partners see it. It lacks url, headers, body and response, which only members of the shop may see.
 *
 * @throws when a required field is missing.
 */
export function deliveryView(delivery: Delivery): DeliveryObject {
  const topic = TOPICS.find((name) => name === delivery.topic);
  const trigger = TRIGGERS.find((name) => name === delivery.trigger);
  const state = word(DeliveryStateSchema, delivery.state, DELIVERY_STATES);
  if (!topic || !trigger || !state) {
    throw new Error(`delivery ${delivery.id} has an unknown topic, trigger or state`);
  }
  return {
    id: delivery.id,
    event_id: delivery.eventId,
    topic,
    trigger,
    state,
    test: delivery.test,
    api_version: delivery.apiVersion,
    return_id: idNumber(delivery.returnId),
    occurred_at: requiredIso(delivery.occurredAt, 'a delivery'),
    created_at: requiredIso(delivery.createdAt, 'a delivery'),
    next_attempt_at: iso(delivery.nextAttemptAt),
    finished_at: iso(delivery.finishedAt),
    attempts: delivery.attempts.map(attemptView),
  };
}

/** A page of a webhook's deliveries. */
export function deliveryPageView(page: {
  readonly deliveries: readonly Delivery[];
  readonly nextCursor: string;
}): DeliveryPage {
  return {
    deliveries: page.deliveries.map(deliveryView),
    next_cursor: textOrNull(page.nextCursor),
  };
}

function attemptView(attempt: Attempt): DeliveryObject['attempts'][number] {
  const { number, startedAt, status, error, durationMs, timing } = attempt;
  return {
    number,
    at: requiredIso(startedAt, 'a delivery'),
    status: status === 0 ? null : status,
    error: textOrNull(error),
    duration_ms: durationMs,
    timing: timing ? timingView(timing) : null,
  };
}

function timingView(timing: AttemptTiming) {
  return {
    dns_ms: timing.dnsMs ?? null,
    connect_ms: timing.connectMs ?? null,
    tls_ms: timing.tlsMs ?? null,
    wait_ms: timing.waitMs ?? null,
    read_ms: timing.readMs ?? null,
  };
}
