import { NOT_FOUND } from './errors.ts';
import { body, type Operation, webhookRules } from './operation.ts';
import { delivery, deliveryPage } from './resources/delivery.ts';
import * as shapes from './resources/errors.ts';
import {
  createdWebhook,
  PAYLOAD_VERSION_HEADER,
  webhook,
  webhookBody,
  webhookList,
} from './resources/webhook.ts';
import { webhookRetry } from './resources/webhook-retry.ts';

/** The operations on subscriptions and their deliveries. */
export const WEBHOOK_OPERATIONS: readonly Operation[] = [
  {
    ...webhookRules,
    id: 'listWebhooks',
    method: 'GET',
    path: '/webhooks',
    success: { status: 200, schema: webhookList },
    addition: true,
    summary: 'List webhooks',
    description: "All of the shop's webhook subscriptions with their health, by ascending id.",
    errors: {},
  },
  {
    ...webhookRules,
    id: 'createWebhook',
    method: 'POST',
    path: '/webhooks',
    body: body(webhookBody),
    keyed: 'header',
    success: { status: 201, schema: createdWebhook },
    addition: true,
    summary: 'Create webhook',
    description:
      'Adds a subscription and returns its signing secret. A repeat with the same `Idempotency-Key` returns the same subscription and secret. A topic and a trigger that never deliver together are stored, too; `delivers` is then false, and `warnings` says so. A shop has at most 100 subscriptions, and at most 5 active ones to one host for one pair of topic and trigger.',
    errors: { 422: [shapes.messageError, shapes.webhookRefused] },
  },
  {
    ...webhookRules,
    id: 'getWebhook',
    method: 'GET',
    path: '/webhooks/{id}',
    notFound: NOT_FOUND.webhook,
    success: { status: 200, schema: webhook },
    addition: true,
    summary: 'Get webhook',
    description: 'A subscription and its health: how its deliveries fare, and why it is inactive.',
    errors: { 404: [shapes.webhookNotFound] },
  },
  {
    ...webhookRules,
    id: 'updateWebhook',
    method: 'PUT',
    path: '/webhooks/{id}',
    notFound: NOT_FOUND.webhook,
    body: body(webhookBody),
    success: { status: 204, headers: [PAYLOAD_VERSION_HEADER] },
    addition: false,
    summary: 'Update webhook',
    description:
      'Changes a subscription. Waiting deliveries go to the new address. A new topic or trigger applies to later events. A shop has at most 5 active subscriptions to one host for one pair of topic and trigger.',
    errors: { 404: [shapes.webhookNotFound], 422: [shapes.messageError, shapes.webhookRefused] },
  },
  {
    ...webhookRules,
    id: 'deleteWebhook',
    method: 'DELETE',
    path: '/webhooks/{id}',
    notFound: NOT_FOUND.webhook,
    success: { status: 204 },
    addition: false,
    summary: 'Delete webhook',
    description: 'Removes a subscription. Its waiting deliveries are dropped.',
    errors: { 404: [shapes.webhookNotFound] },
  },
  {
    ...webhookRules,
    id: 'listDeliveries',
    method: 'GET',
    path: '/webhooks/{id}/deliveries',
    notFound: NOT_FOUND.webhook,
    query: true,
    success: { status: 200, schema: deliveryPage },
    addition: true,
    summary: 'List deliveries',
    description:
      'The deliveries of a webhook, sent and waiting, newest event first, for 30 days. The content of requests and responses is shown only to users of the shop.',
    errors: { 404: [shapes.webhookNotFound], 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'retryDeliveries',
    method: 'POST',
    path: '/webhooks/{id}/deliveries/retry',
    notFound: NOT_FOUND.webhook,
    keyed: 'header',
    success: { status: 200, schema: webhookRetry },
    addition: true,
    summary: 'Retry waiting deliveries',
    description:
      'Sends the deliveries of an active webhook now that wait for their next attempt, for example after you repaired the receiver or changed the address. The attempts are additional ones: a delivery that fails again waits as long as before. A webhook that is `paused` gets one delivery first, and the others when it succeeds. Deliveries in flight are not sent twice. `waiting` counts all that the webhook has to send, with those that were due already. There is no body: the call is for all deliveries of the webhook; *Start replay* has filters. An inactive webhook is rejected (409).',
    errors: {
      404: [shapes.webhookNotFound],
      409: [shapes.errorsMessage],
      422: [shapes.messageError],
    },
  },
  {
    ...webhookRules,
    id: 'replayDelivery',
    method: 'POST',
    path: '/webhooks/{id}/deliveries/{delivery_id}/replay',
    notFound: NOT_FOUND.delivery,
    success: { status: 200, schema: delivery },
    addition: true,
    summary: 'Replay delivery',
    description:
      'Sends an ended delivery again, with the same `webhook-id`, the same bytes and the whole schedule of retries. A delivery that is waiting, or whose payload was removed, is rejected.',
    errors: { 404: [shapes.webhookNotFound], 409: [shapes.notReplayable] },
  },
];
