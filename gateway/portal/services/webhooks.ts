import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import { WebhooksService } from '../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { SECRET_OVERLAP_HOURS_DEFAULT } from '../../../services/contract/limits.ts';
import { TOPICS, TRIGGERS, WEBHOOK_STATUSES } from '../../../services/contract/vocabulary.ts';
import { URL_MAX } from '../../../services/platform/text.ts';
import { sent } from '../../actions/context.ts';
import {
  endEarlierSecrets,
  revealSecret,
  rotateSecret,
  sendTest,
} from '../../actions/webhook-secrets.ts';
import {
  createWebhook,
  deleteWebhook,
  getPayloadVersion,
  getWebhook,
  listWebhooks,
  updateWebhook,
} from '../../actions/webhooks.ts';
import { mayCall } from '../access.ts';
import { callOf, type PortalCall } from '../call.ts';
import { eventTypes } from '../event-types.ts';
import { idOf, keyOf, optionalWord, textOf, upTo, wordOf } from '../fields.ts';
import { deliveryView } from '../views/delivery.ts';
import { secretView, webhookView } from '../views/webhook.ts';
import { deliveryMethods } from './deliveries.ts';
import { replayMethods } from './replays.ts';

/** Manages a shop's webhooks, and shows what they delivered. */
export function webhooksService(): ServiceImpl<typeof WebhooksService> {
  return { ...subscriptionMethods(), ...secretMethods(), ...deliveryMethods(), ...replayMethods() };
}

const HOUR_MS = 3_600_000;

type Methods = Partial<ServiceImpl<typeof WebhooksService>>;

/** Reads a webhook with its health and with what waits. */
async function show({ context, session }: PortalCall, id: bigint) {
  const withResponse = mayCall(session.role, WebhooksService.method.getDelivery);
  return webhookView(await getWebhook(context, id, { backlog: true }), { withResponse });
}

function subscriptionMethods() {
  return {
    async listWebhooks(_request, context) {
      const call = callOf(context);
      const [webhooks, payloadVersion] = await Promise.all([
        listWebhooks(call.context, { backlog: true, health: true }),
        getPayloadVersion(call.context),
      ]);
      return { webhooks: webhooks.map((one) => webhookView(one)), payloadVersion };
    },

    async getWebhook({ webhookId }, context) {
      return { webhook: await show(callOf(context), idOf(webhookId, 'webhook')) };
    },

    listEventTypes: () => eventTypes(),

    async createWebhook({ topic, trigger, url, status, description, idempotencyKey }, context) {
      const call = callOf(context);
      const body = {
        topic: wordOf('topic', topic, TOPICS),
        trigger: wordOf('trigger', trigger, TRIGGERS),
        url: textOf('url', url, URL_MAX),
        status: optionalWord('status', status, WEBHOOK_STATUSES),
        description,
      };
      const created = await createWebhook(call.context, body, keyOf(call, idempotencyKey));
      const webhook = webhookView(sent(created.subscription, 'subscription'));
      const equalWebhookIds = created.equalSubscriptionIds.map(String);
      return { webhook, secret: created.secret, equalWebhookIds };
    },

    async updateWebhook({ webhookId, idempotencyKey, ...request }, context) {
      const call = callOf(context);
      const { topic, trigger, url, status, description } = request;
      const change = {
        topic: optionalWord('topic', topic, TOPICS),
        trigger: optionalWord('trigger', trigger, TRIGGERS),
        ...(url !== '' && { url: upTo('url', url, URL_MAX) }),
        status: optionalWord('status', status, WEBHOOK_STATUSES),
        description,
      };
      const id = idOf(webhookId, 'webhook');
      await updateWebhook(call.context, id, change, keyOf(call, idempotencyKey));
      return { webhook: await show(call, id) };
    },

    async deleteWebhook({ webhookId }, context) {
      await deleteWebhook(callOf(context).context, idOf(webhookId, 'webhook'));
      return {};
    },
  } satisfies Methods;
}

function secretMethods() {
  return {
    async revealSecret({ webhookId }, context) {
      const secrets = await revealSecret(callOf(context).context, idOf(webhookId, 'webhook'));
      return { secrets: secrets.map(secretView) };
    },

    async rotateSecret({ webhookId, overlapHours, idempotencyKey }, context) {
      const call = callOf(context);
      const id = idOf(webhookId, 'webhook');
      const key = keyOf(call, idempotencyKey);
      const secret = await rotateSecret(call.context, id, { overlapHours, idempotencyKey: key });
      const hours = overlapHours ?? SECRET_OVERLAP_HOURS_DEFAULT;
      const madeAt = secret.createdAt ? timestampDate(secret.createdAt) : new Date();
      const formerExpiresAt = timestampFromDate(new Date(madeAt.getTime() + hours * HOUR_MS));
      return { secrets: [secretView(secret)], formerExpiresAt };
    },

    async endEarlierSecrets({ webhookId }, context) {
      await endEarlierSecrets(callOf(context).context, idOf(webhookId, 'webhook'));
      return {};
    },

    async sendTest({ webhookId, trigger, idempotencyKey }, context) {
      const call = callOf(context);
      const delivery = await sendTest(call.context, idOf(webhookId, 'webhook'), {
        trigger: optionalWord('trigger', trigger, TRIGGERS),
        idempotencyKey: keyOf(call, idempotencyKey),
      });
      return { delivery: deliveryView(delivery) };
    },
  } satisfies Methods;
}
