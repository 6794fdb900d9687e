import { SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { deliveryPageView, deliveryView } from '../../services/contract/views/delivery.ts';
import { textOrNull } from '../../services/contract/views/values.ts';
import {
  createdWebhookView,
  warningsOf,
  webhookSecretView,
  webhookView,
} from '../../services/contract/views/webhook.ts';
import { replayView } from '../../services/contract/views/webhook-replay.ts';
import { sent } from '../actions/context.ts';
import { listDeliveries, replayDelivery, retryDeliveries } from '../actions/deliveries.ts';
import {
  cancelReplay,
  getReplay,
  listReplays,
  previewReplay,
  startReplay,
} from '../actions/webhook-replays.ts';
import {
  endEarlierSecrets,
  revealSecret,
  rotateSecret,
  sendTest,
} from '../actions/webhook-secrets.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  updateWebhook,
} from '../actions/webhooks.ts';
import type { Handlers } from './handler.ts';

/** The handlers of the operations on webhooks. */
export const WEBHOOK_HANDLERS = {
  listWebhooks: async ({ context }) =>
    (await listWebhooks(context, { health: true })).map(webhookView),
  getWebhook: async ({ context, id }) => webhookView(await getWebhook(context, id)),
  createWebhook: async ({ context, body, idempotencyKey }) => {
    const { subscription, ...made } = await createWebhook(context, body, idempotencyKey);
    return createdWebhookView(sent(subscription, 'subscription'), made);
  },
  updateWebhook: async ({ context, id, body, headers }) => {
    const { subscription, payloadVersion, equal } = await updateWebhook(context, id, body);
    // In the interface, this response has no body. So the version and the hints are in headers.
    headers.payloadVersion(payloadVersion);
    for (const { message } of warningsOf(subscription, equal)) headers.hint(message);
    if (body.status === undefined && subscription.status === SubscriptionStatus.INACTIVE) {
      headers.hint('the webhook stays inactive and gets no events; status active activates it');
    }
  },
  deleteWebhook: ({ context, id }) => deleteWebhook(context, id),
  listDeliveries: async ({ context, id, query }) =>
    deliveryPageView(await listDeliveries(context, id, query)),
  retryDeliveries: async ({ context, id: subscriptionId, idempotencyKey, headers }) => {
    const { count, more } = await retryDeliveries(context, { subscriptionId, idempotencyKey });
    const { backlog, health } = await getWebhook(context, subscriptionId, { backlog: true });
    if (health?.pausedSince !== undefined) {
      headers.hint(
        'the webhook is paused: one delivery is tried first, the others when it succeeds',
      );
    }
    return { deliveries: count, more, waiting: backlog?.count ?? 0 };
  },
  replayDelivery: async ({ context, id, deliveryId }) =>
    deliveryView(await replayDelivery(context, { subscriptionId: id, deliveryId })),
  testWebhook: async ({ context, id, body, idempotencyKey }) => {
    const options = { trigger: body.trigger ?? undefined, idempotencyKey };
    return deliveryView(await sendTest(context, id, options));
  },
  rotateWebhookSecret: async ({ context, id, body, idempotencyKey }) => {
    const options = { overlapHours: body.overlap_hours ?? undefined, idempotencyKey };
    return webhookSecretView(await rotateSecret(context, id, options));
  },
  getWebhookSecret: async ({ context, id }) => ({
    secrets: (await revealSecret(context, id)).map(webhookSecretView),
  }),
  endEarlierSecrets: ({ context, id }) => endEarlierSecrets(context, id),
  previewReplay: ({ context, body }) => previewReplay(context, body),
  startReplay: async ({ context, body, idempotencyKey }) =>
    replayView(await startReplay(context, body, idempotencyKey)),
  listReplays: async ({ context, query }) => {
    const { replays, nextCursor } = await listReplays(context, query);
    return { replays: replays.map(replayView), next_cursor: textOrNull(nextCursor) };
  },
  getReplay: async ({ context, id }) => replayView(await getReplay(context, id)),
  cancelReplay: async ({ context, id }) => replayView(await cancelReplay(context, id)),
} satisfies Partial<Handlers>;
