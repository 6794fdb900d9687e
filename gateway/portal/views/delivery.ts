import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  DeliveryAttemptSchema,
  DeliveryCountSchema,
  DeliverySchema,
} from '../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import {
  type Attempt,
  type Delivery,
  type DeliveryCount,
  type DeliveryState,
  DeliveryStateSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { word } from '../../../services/contract/views/values.ts';
import { DELIVERY_STATES } from '../../../services/contract/vocabulary.ts';

export function deliveryView(one: Delivery): MessageInitShape<typeof DeliverySchema> {
  const { id, eventId, topic, trigger, apiVersion, test, attempts } = one;
  const { occurredAt, nextAttemptAt, finishedAt } = one;
  const last = attempts.at(-1);
  return {
    id,
    eventId,
    topic,
    trigger,
    apiVersion,
    test,
    webhookId: String(one.subscriptionId),
    state: stateText(one.state),
    returnId: String(one.returnId),
    revision: String(one.revision),
    ...(occurredAt && { occurredAt }),
    ...(nextAttemptAt && { nextAttemptAt }),
    ...(finishedAt && { finishedAt }),
    attemptCount: attempts.length,
    ...(last && { lastAttempt: attemptView(last) }),
  };
}

export function countView(counted: DeliveryCount): MessageInitShape<typeof DeliveryCountSchema> {
  const { count, more, oldestAt, states } = counted;
  return {
    count,
    more,
    ...(oldestAt && { oldestAt }),
    states: states.map((one) => ({ state: stateText(one.state), count: one.count })),
  };
}

function stateText(state: DeliveryState): string {
  return word(DeliveryStateSchema, state, DELIVERY_STATES) ?? '';
}

export function attemptView(attempt: Attempt): MessageInitShape<typeof DeliveryAttemptSchema> {
  const { number, startedAt, durationMs, status, error, url, responseExcerpt } = attempt;
  const { timing } = attempt;
  return {
    number,
    durationMs,
    status,
    error,
    url,
    responseExcerpt,
    ...(startedAt && { startedAt }),
    requestHeaders: headerList(attempt.requestHeadersJson),
    responseHeaders: headerList(attempt.responseHeadersJson),
    ...(timing && {
      timing: {
        ...(timing.dnsMs !== undefined && { dnsMs: timing.dnsMs }),
        ...(timing.connectMs !== undefined && { connectMs: timing.connectMs }),
        ...(timing.tlsMs !== undefined && { tlsMs: timing.tlsMs }),
        ...(timing.waitMs !== undefined && { waitMs: timing.waitMs }),
        ...(timing.readMs !== undefined && { readMs: timing.readMs }),
      },
    }),
  };
}

/** The service writes this JSON itself: an object of texts. */
function headerList(json: string): { name: string; value: string }[] {
  if (json === '') return [];
  const parsed: unknown = JSON.parse(json);
  const headers = typeof parsed === 'object' && parsed !== null ? Object.entries(parsed) : [];
  return headers.map(([name, value]) => ({ name, value: String(value) }));
}
