import { Code, type ServiceImpl } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  DeliveryState,
  ReplayKind,
  ReplayState,
  UnreplayableReason,
  type WebhooksService,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { DomainError, invalidField } from '../../../services/platform/values/errors.ts';
import { idempotencyConflict } from '../../../services/platform/values/idempotency.ts';
import {
  FAKE,
  NOW,
  sampleDelivery,
  sampleReplay,
  sampleSubscription,
  sampleTest,
} from './fake-objects.ts';

function notFound(reason: ErrorReason, text: string): DomainError {
  return new DomainError(Code.NotFound, reason, text);
}

function subscriptionNotFound(): DomainError {
  return notFound(ErrorReason.SUBSCRIPTION_NOT_FOUND, 'no subscription');
}

function replayNotFound(): DomainError {
  return notFound(ErrorReason.REPLAY_NOT_FOUND, 'no replay');
}

/** Rejects a filter that names another subscription. */
function requireWebhook(id = 0n): void {
  if (id !== FAKE.webhook && id !== 0n) throw subscriptionNotFound();
}

const PAYLOAD_VERSION = '2026-07';

/** The webhooks service of one shop with one subscription, one delivery and one replay. */
export const fakeWebhooks: Partial<ServiceImpl<typeof WebhooksService>> = {
  listSubscriptions: () => ({ subscriptions: [sampleSubscription()] }),
  createSubscription: ({ url, topic, trigger }) => {
    requireHttps(url);
    return {
      subscription: { ...sampleSubscription(), topic, trigger, url, delivers: topic === 'return' },
      secret: FAKE.secret,
      payloadVersion: PAYLOAD_VERSION,
    };
  },
  getSubscription: ({ subscriptionId }) => {
    if (subscriptionId !== FAKE.webhook) throw subscriptionNotFound();
    return { subscription: sampleSubscription() };
  },
  updateSubscription: ({ url, topic, trigger, subscriptionId }) => {
    if (url !== '') requireHttps(url);
    if (subscriptionId !== FAKE.webhook) {
      throw subscriptionNotFound();
    }
    const before = sampleSubscription();
    const subscription = {
      ...before,
      topic: topic || before.topic,
      trigger: trigger || before.trigger,
      delivers: topic === '' || topic === 'return',
    };
    return { subscription, payloadVersion: PAYLOAD_VERSION };
  },
  deleteSubscription: ({ subscriptionId }) => {
    if (subscriptionId === FAKE.webhook) return {};
    throw subscriptionNotFound();
  },
  listDeliveries: ({ subscriptionId, pageSize, cursor }) => {
    if (cursor !== '' && cursor !== 'next') {
      throw invalidField('cursor', 'must be the cursor of a previous page');
    }
    if (subscriptionId !== FAKE.webhook && subscriptionId !== 0n) {
      throw subscriptionNotFound();
    }
    return { deliveries: [sampleDelivery()], nextCursor: pageSize === 1 ? 'next' : '' };
  },
  retryDeliveries: ({ subscriptionId }) => {
    if (subscriptionId !== FAKE.webhook) throw subscriptionNotFound();
    return { count: 4, more: false };
  },
  replayDelivery: ({ subscriptionId, deliveryId }) => {
    const isOther = subscriptionId !== FAKE.webhook && subscriptionId !== 0n;
    if (isOther || deliveryId !== FAKE.delivery) {
      throw notFound(ErrorReason.DELIVERY_NOT_FOUND, 'no delivery');
    }
    return { delivery: { ...sampleDelivery(), state: DeliveryState.WAITING } };
  },
  getDelivery: ({ deliveryId }) => {
    if (deliveryId === FAKE.delivery) return { delivery: sampleDelivery() };
    throw notFound(ErrorReason.DELIVERY_NOT_FOUND, 'no delivery');
  },
  sendTest: ({ subscriptionId, trigger }) => {
    if (subscriptionId !== FAKE.webhook) throw subscriptionNotFound();
    if (trigger === 'shipment.processed') {
      throw invalidField('trigger', 'is not delivered to topic return');
    }
    return { delivery: sampleTest(trigger) };
  },
  rotateSecret: ({ subscriptionId, overlapHours, idempotencyKey }) => {
    if (subscriptionId !== FAKE.webhook) throw subscriptionNotFound();
    if (idempotencyKey !== '' && overlapHours === 1) throw idempotencyConflict();
    return { secret: { value: FAKE.secret, createdAt: NOW } };
  },
  endFormerSecrets: ({ subscriptionId }) => {
    if (subscriptionId !== FAKE.webhook) throw subscriptionNotFound();
    return { ended: 1 };
  },
  revealSecret: ({ subscriptionId }) => {
    if (subscriptionId !== FAKE.webhook) throw subscriptionNotFound();
    return { secrets: [{ value: FAKE.secret, createdAt: NOW, expiresAt: NOW }] };
  },
  previewReplay: ({ filter }) => {
    requireWebhook(filter?.subscriptionId);
    const notReplayable = [{ reason: UnreplayableReason.WAITING, count: 2 }];
    return { matched: 5, more: false, replayable: 3, notReplayable, oldestAt: NOW, newestAt: NOW };
  },
  startReplay: ({ filter }) => {
    requireWebhook(filter?.subscriptionId);
    return { replay: { ...sampleReplay(), ...(filter && { filter }) } };
  },
  previewBackfill: ({ subscriptionId }) => {
    requireWebhook(subscriptionId);
    return { events: 7, more: false, oldestAt: NOW, newestAt: NOW };
  },
  startBackfill: ({ subscriptionId }) => {
    requireWebhook(subscriptionId);
    const filter = {
      subscriptionId,
      topic: 'return',
      trigger: 'return.closed',
      from: NOW,
      to: NOW,
    };
    return { replay: { ...sampleReplay(), kind: ReplayKind.BACKFILL, filter } };
  },
  getReplay: ({ replayId }) => {
    if (replayId !== FAKE.replay) throw replayNotFound();
    return { replay: sampleReplay() };
  },
  cancelReplay: ({ replayId }) => {
    if (replayId !== FAKE.replay) throw replayNotFound();
    return { replay: { ...sampleReplay(), state: ReplayState.CANCELLED, finishedAt: NOW } };
  },
  listReplays: ({ pageSize, cursor }) => {
    if (cursor !== '' && cursor !== '61') {
      throw invalidField('cursor', 'must be the cursor of a previous page');
    }
    return { replays: [sampleReplay()], nextCursor: pageSize === 1 ? '61' : '' };
  },
  listLastTests: () => ({ deliveries: [] }),
  getDeliveryStats: () => ({ hours: [] }),
  getPayloadVersion: () => ({ version: PAYLOAD_VERSION }),
  setPayloadVersion: ({ version }) => ({ version }),
  setSandbox: () => ({}),
};

function requireHttps(url: string): void {
  if (url.startsWith('https://')) return;
  throw new DomainError(
    Code.InvalidArgument,
    ErrorReason.WEBHOOK_URL_REFUSED,
    'The url must be an absolute https address',
    { field: 'url' },
  );
}
