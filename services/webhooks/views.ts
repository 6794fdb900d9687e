import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type Attempt,
  AttemptSchema,
  type AttemptTiming,
  AttemptTimingSchema,
  type Delivery,
  type DeliveryCountSchema,
  DeliverySchema,
  DeliveryStateSchema,
  type Secret as SecretMessage,
  SecretSchema,
  type Subscription as SubscriptionMessage,
  SubscriptionSchema,
  SubscriptionStatusSchema,
  type SubscriptionValuesSchema,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { delivers } from '../contract/topics/topics.ts';
import { errorForPartners } from '../platform/outbound/failure.ts';
import type { Secret } from '../platform/outbound/secrets.ts';
import { actorKindText } from '../platform/values/actor.ts';
import { enumText } from '../platform/values/enum-text.ts';
import { deactivatesAtMs } from './delivery/results/deactivate.ts';
import { occurredAt } from './delivery-id.ts';
import type { Backlog, LastFailure } from './log/backlogs.ts';
import { webhookIdOf } from './log/delivery.ts';
import type { DeliveryCount } from './log/list.ts';
import type { AttemptRow, LoggedDelivery } from './log/rows.ts';
import type { Health } from './subscriptions/health.ts';
import type { ChosenValues, Subscription } from './subscriptions/subscription.ts';

const statusText = enumText(SubscriptionStatusSchema);
const deliveryStateText = enumText(DeliveryStateSchema);

/** The values of a subscription that users choose. */
export function chosenMessage({
  topic,
  trigger,
  url,
  status,
  description,
}: ChosenValues): MessageInitShape<typeof SubscriptionValuesSchema> {
  return { topic, trigger, url, status: statusText.fromText(status), description };
}

/**
 * A subscription. With its waiting deliveries, its health and its newest failed attempt, when the request asks for
 * them.
 */
export function subscriptionMessage(
  subscription: Subscription,
  {
    backlog,
    health,
    failure,
  }: {
    backlog?: Backlog | undefined;
    health?: Health;
    failure?: LastFailure | undefined;
  } = {},
): SubscriptionMessage {
  const { id, topic, trigger, url, description, failingSince, inactiveSince } = subscription;
  const isCounting = subscription.status === 'active' && failingSince !== null;
  return create(SubscriptionSchema, {
    id,
    topic,
    trigger,
    url,
    description,
    status: statusText.fromText(subscription.status),
    delivers: delivers(topic, trigger),
    createdAt: timestampFromDate(subscription.createdAt),
    updatedAt: timestampFromDate(subscription.updatedAt),
    inactiveReason: subscription.inactiveReason,
    failures: subscription.failures,
    ...(failingSince && { failingSince: timestampFromDate(failingSince) }),
    ...(isCounting && {
      disablesAt: timestampFromDate(new Date(deactivatesAtMs(failingSince.getTime()))),
    }),
    warnedPercent: subscription.warnedPercent,
    ...(inactiveSince && { inactiveSince: timestampFromDate(inactiveSince) }),
    ...(backlog && {
      backlog: {
        count: backlog.count,
        more: backlog.isMore,
        ...(backlog.oldestAt && { oldestAt: timestampFromDate(backlog.oldestAt) }),
        ...(backlog.nextAttemptAt && { nextAttemptAt: timestampFromDate(backlog.nextAttemptAt) }),
        ...(backlog.delayedUntil && { delayedUntil: timestampFromDate(backlog.delayedUntil) }),
      },
    }),
    ...(health && { health: healthMessage(health) }),
    ...(failure && { lastFailure: failureMessage(failure) }),
    ...shownMessage(subscription),
    ...(subscription.formerSecretsUntil && {
      formerSecretsUntil: timestampFromDate(subscription.formerSecretsUntil),
    }),
    ...(subscription.newestSecretAt && {
      newestSecretAt: timestampFromDate(subscription.newestSecretAt),
    }),
  });
}

function failureMessage({ id, startedAt, status, error, url, responseExcerpt }: LastFailure) {
  return {
    deliveryId: webhookIdOf(id),
    startedAt: timestampFromDate(startedAt),
    status,
    error: errorForPartners(error),
    url,
    responseExcerpt,
  };
}

function shownMessage(subscription: Subscription) {
  const { secretShownAt: at, secretShownKind: kind, secretShownId: id } = subscription;
  if (at === null || kind === null || id === null) return {};
  return {
    secretShownAt: timestampFromDate(at),
    secretShownTo: {
      kind: actorKindText.fromText(kind),
      id,
      name: subscription.secretShownName ?? '',
    },
  };
}

function healthMessage({
  counted,
  delivered,
  oldestWaitingAt,
  pausedSince,
  payloadVersion,
  countedSince,
}: Health) {
  return {
    counted,
    delivered,
    payloadVersion,
    ...(oldestWaitingAt && { oldestWaitingAt: timestampFromDate(oldestWaitingAt) }),
    ...(pausedSince && { pausedSince: timestampFromDate(pausedSince) }),
    ...(countedSince && { countedSince: timestampFromDate(countedSince) }),
  };
}

export function secretMessage(secret: Secret): SecretMessage {
  return create(SecretSchema, {
    value: secret.value,
    createdAt: timestampFromDate(secret.createdAt),
    ...(secret.expiresAt && { expiresAt: timestampFromDate(secret.expiresAt) }),
  });
}

/** A delivery with its attempts, oldest first. */
export function deliveryMessage({ row, attempts }: LoggedDelivery): Delivery {
  return create(DeliverySchema, {
    id: webhookIdOf(row.id),
    subscriptionId: row.subscriptionId,
    eventId: row.eventId,
    trigger: row.trigger,
    topic: row.topic,
    state: deliveryStateText.fromText(row.state),
    occurredAt: timestampFromDate(occurredAt(row.id)),
    createdAt: timestampFromDate(row.createdAt),
    ...(row.nextAttemptAt && { nextAttemptAt: timestampFromDate(row.nextAttemptAt) }),
    attempts: attempts.map(attemptMessage),
    apiVersion: row.apiVersion,
    returnId: row.returnId ?? 0n,
    revision: row.revision,
    ...(row.body && { body: new Uint8Array(row.body) }),
    test: row.isTest,
    ...(row.finishedAt && { finishedAt: timestampFromDate(row.finishedAt) }),
  });
}

export function countMessage(counted: DeliveryCount): MessageInitShape<typeof DeliveryCountSchema> {
  const { count, isMore, oldestAt, states } = counted;
  return {
    count,
    more: isMore,
    ...(oldestAt && { oldestAt: timestampFromDate(oldestAt) }),
    states: states.map((one) => ({
      state: deliveryStateText.fromText(one.state),
      count: one.count,
    })),
  };
}

function attemptMessage(row: AttemptRow): Attempt {
  return create(AttemptSchema, {
    number: row.number,
    startedAt: timestampFromDate(row.startedAt),
    durationMs: row.durationMs,
    status: row.status,
    error: errorForPartners(row.error),
    requestHeadersJson: row.requestHeaders,
    responseExcerpt: row.responseExcerpt,
    responseHeadersJson: row.responseHeaders,
    url: row.url,
    timing: timingMessage(row),
  });
}

function timingMessage(row: AttemptRow): AttemptTiming {
  const { dnsMs, connectMs, tlsMs, waitMs, readMs } = row;
  return create(AttemptTimingSchema, {
    ...(dnsMs !== null && { dnsMs }),
    ...(connectMs !== null && { connectMs }),
    ...(tlsMs !== null && { tlsMs }),
    ...(waitMs !== null && { waitMs }),
    ...(readMs !== null && { readMs }),
  });
}
