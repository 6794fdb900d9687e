import { NOT_FOUND } from './errors.ts';
import { body, type Operation, webhookRules } from './operation.ts';
import { delivery, deliveryPage } from './resources/delivery.ts';
import * as shapes from './resources/errors.ts';
import {
  createdWebhook,
  PAYLOAD_VERSION_HEADER,
  rotateSecretBody,
  webhook,
  webhookBody,
  webhookList,
  webhookRetry,
  webhookSecret,
  webhookSecrets,
  webhookTestBody,
} from './resources/webhook.ts';
import {
  replayBody,
  replayPage,
  replayPreview,
  webhookReplay,
} from './resources/webhook-replay.ts';

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
      'Adds a subscription and returns its signing secret. A repeat with the same `Idempotency-Key` returns the same subscription and secret. A topic and a trigger that never deliver together are stored, too; `delivers` is then false, and `warnings` says so. A shop has at most 100 subscriptions, and at most 5 active ones to one domain for one pair of topic and trigger.',
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
      'Changes a subscription. Waiting deliveries go to the new address. A new topic or trigger applies to later events. A shop has at most 5 active subscriptions to one domain for one pair of topic and trigger.',
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

/** The operations for setting up a receiver: test events and signing secrets. */
export const WEBHOOK_SECRET_OPERATIONS: readonly Operation[] = [
  {
    ...webhookRules,
    id: 'testWebhook',
    method: 'POST',
    path: '/webhooks/{id}/test',
    notFound: NOT_FOUND.webhook,
    body: body(webhookTestBody, { required: false }),
    keyed: 'header',
    success: { status: 201, schema: delivery },
    addition: true,
    summary: 'Send test event',
    description:
      'Sends a test event with sample data to an active webhook, signed and retried like any other. The response is its delivery, which *List deliveries* shows with its attempts. An inactive webhook is rejected (409).',
    errors: {
      404: [shapes.webhookNotFound],
      409: [shapes.errorsMessage],
      422: [shapes.messageError],
    },
  },
  {
    ...webhookRules,
    id: 'rotateWebhookSecret',
    method: 'POST',
    path: '/webhooks/{id}/secret/rotate',
    notFound: NOT_FOUND.webhook,
    body: body(rotateSecretBody, { required: false }),
    keyed: 'header',
    success: { status: 200, schema: webhookSecret },
    addition: true,
    summary: 'Rotate secret',
    description:
      'Makes a new signing secret. During the overlap the earlier secrets sign, too: `webhook-signature` then has several signatures, separated by spaces. So a receiver can change its secret without a rejected delivery.',
    errors: { 404: [shapes.webhookNotFound], 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'getWebhookSecret',
    method: 'GET',
    path: '/webhooks/{id}/secret',
    notFound: NOT_FOUND.webhook,
    reveals: true,
    success: { status: 200, schema: webhookSecrets },
    addition: true,
    summary: 'Get secret',
    description:
      "The signing secrets of a webhook that sign now. Each call is recorded in the shop's audit log.",
    errors: { 404: [shapes.webhookNotFound] },
  },
  {
    ...webhookRules,
    id: 'endEarlierSecrets',
    method: 'DELETE',
    path: '/webhooks/{id}/secret/previous',
    notFound: NOT_FOUND.webhook,
    success: { status: 204 },
    addition: true,
    summary: 'End earlier secrets',
    description:
      'Ends the overlap of rotations, for example after a secret has leaked: deliveries are signed only with the newest secret from then on. Only deliveries that are being sent at that moment may still have signatures of earlier ones. Let the receiver reject the old secret, too. Without an earlier secret nothing changes, and the response is the same.',
    errors: { 404: [shapes.webhookNotFound] },
  },
];

/** Points of a preview, because its count may read a million deliveries. */
const COUNT_POINTS = 10;

/** The operations on replays by filter and backfills. Both are jobs, which run in the background. */
export const WEBHOOK_REPLAY_OPERATIONS: readonly Operation[] = [
  {
    ...webhookRules,
    id: 'previewReplay',
    method: 'POST',
    path: '/webhook-replay-previews',
    body: body(replayBody),
    points: COUNT_POINTS,
    success: { status: 200, schema: replayPreview },
    addition: true,
    summary: 'Preview replay',
    description:
      'Counts what *Start replay* with the same body would send, and what it could not. It starts nothing. It counts as ten requests. A backfill of an inactive webhook, or of one that never delivers, is rejected (409).',
    errors: { 409: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'startReplay',
    method: 'POST',
    path: '/webhook-replays',
    body: body(replayBody),
    keyed: 'header',
    points: COUNT_POINTS,
    success: { status: 201, schema: webhookReplay },
    addition: true,
    summary: 'Start replay',
    description:
      'Starts a job that sends the deliveries of a filter again: oldest first, each once, with the same `webhook-id` and the same bytes. New events are sent first. A backfill sends a webhook the stored events of its trigger, except those that it got already. When there is nothing to send, the job is done immediately. It counts as ten requests. More than 100,000 deliveries, or a webhook with a job that runs, are rejected (409).',
    errors: { 409: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'listReplays',
    method: 'GET',
    path: '/webhook-replays',
    query: true,
    success: { status: 200, schema: replayPage },
    addition: true,
    summary: 'List replays',
    description: 'Replays and backfills with their progress, newest first, for 30 days.',
    errors: { 422: [shapes.messageError] },
  },
  {
    ...webhookRules,
    id: 'getReplay',
    method: 'GET',
    path: '/webhook-replays/{id}',
    notFound: NOT_FOUND.replay,
    success: { status: 200, schema: webhookReplay },
    addition: true,
    summary: 'Get replay',
    description: 'A replay or a backfill with its progress.',
    errors: { 404: [shapes.webhookNotFound] },
  },
  {
    ...webhookRules,
    id: 'cancelReplay',
    method: 'POST',
    path: '/webhook-replays/{id}/cancel',
    notFound: NOT_FOUND.replay,
    success: { status: 200, schema: webhookReplay },
    addition: true,
    summary: 'Cancel replay',
    description:
      'Stops a replay or a backfill. Deliveries that are queued already are still sent. A job that has ended does not change.',
    errors: { 404: [shapes.webhookNotFound] },
  },
];
