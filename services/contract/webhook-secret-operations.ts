import { NOT_FOUND } from './errors.ts';
import { body, type Operation, webhookRules } from './operation.ts';
import { delivery } from './resources/delivery.ts';
import * as shapes from './resources/errors.ts';
import { rotateSecretBody, webhookSecret, webhookSecrets } from './resources/webhook-secret.ts';
import { webhookTestBody } from './resources/webhook-test.ts';

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
