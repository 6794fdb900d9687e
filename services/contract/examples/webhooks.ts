import type { z } from 'zod';
import { conflict, keyOfOtherContent, notReplayable, webhookRejected } from '../public-errors.ts';
import type { DeliveryObject } from '../resources/delivery.ts';
import type {
  CreatedWebhook,
  rotateSecretBody,
  Webhook,
  WebhookRetryObject,
  WebhookSecretObject,
  webhookBody,
  webhookTestBody,
} from '../resources/webhook.ts';
import type { ReplayObject, ReplayPreviewObject, replayBody } from '../resources/webhook-replay.ts';
import { SAMPLE_RETURN_ID } from '../sample-return.ts';
import type { OperationExample } from './example.ts';
import { RECEIVER_URL, RETURN_ID, TIMES, WEBHOOK_ID } from './story.ts';

const body = {
  topic: 'return',
  trigger: 'return.closed',
  url: RECEIVER_URL,
  status: 'active',
} as const satisfies z.input<typeof webhookBody>;

/** A secret of 32 bytes that signs nothing. @param text 32 characters. */
const secretOf = (text: string) => `whsec_${Buffer.from(text).toString('base64')}`;
const first: WebhookSecretObject = {
  secret: secretOf('an example of the documents only'),
  created_at: TIMES.subscribed,
  expires_at: null,
};
const second: WebhookSecretObject = {
  secret: secretOf('the next example after rotation.'),
  created_at: TIMES.rotated,
  expires_at: null,
};

const created: CreatedWebhook = {
  id: WEBHOOK_ID,
  ...body,
  secret: first.secret,
  delivers: true,
  payload_version: '2026-10',
  warnings: [],
};
const webhook: Webhook = {
  id: WEBHOOK_ID,
  ...body,
  delivers: true,
  payload_version: created.payload_version,
  health: 'healthy',
  success_rate_24h: 1,
  failures: 0,
  failing_since: null,
  disables_at: null,
  oldest_waiting_at: null,
  inactive_since: null,
  inactive_reason: null,
  created_at: TIMES.subscribed,
  updated_at: TIMES.subscribed,
};

/** The delivery of the event that processing the return caused. It was delivered at the first attempt. */
const delivery: DeliveryObject = {
  id: 'msg_019ab561-fd78-8a5e-9c1f-4b7d40000001',
  event_id: '7c2f3a52-7a0e-4b8e-9d0c-2f6a5f1f9b3e',
  topic: body.topic,
  trigger: body.trigger,
  state: 'delivered',
  test: false,
  api_version: webhook.payload_version,
  return_id: Number(RETURN_ID),
  occurred_at: TIMES.closed,
  created_at: TIMES.closed,
  next_attempt_at: null,
  finished_at: TIMES.closed,
  attempts: [
    {
      number: 1,
      at: TIMES.closed,
      status: 204,
      error: null,
      duration_ms: 84,
      timing: { dns_ms: 3, connect_ms: 12, tls_ms: 25, wait_ms: 41, read_ms: 1 },
    },
  ],
};
const waiting: DeliveryObject = {
  ...delivery,
  state: 'waiting',
  next_attempt_at: TIMES.rotated,
  finished_at: null,
};
const test: DeliveryObject = {
  ...waiting,
  id: 'msg_019ab594-a680-8d13-a04e-91c740000001',
  event_id: '0b6a1d5e-43f8-4f0a-8f5d-6d3b8a2c9e17',
  test: true,
  return_id: Number(SAMPLE_RETURN_ID),
  occurred_at: TIMES.rotated,
  created_at: TIMES.rotated,
  attempts: [],
};

const rejectedUrl = webhookRejected('url must be an https address');

export const WEBHOOK_EXAMPLES = {
  listWebhooks: { response: [webhook] },
  createWebhook: {
    request: body,
    response: created,
    invalid: { ...body, trigger: 'return.paid' },
    rejected: rejectedUrl,
  },
  getWebhook: { response: webhook },
  updateWebhook: {
    request: body,
    invalid: { topic: body.topic, url: body.url },
    rejected: rejectedUrl,
  },
  deleteWebhook: {},
  listDeliveries: {
    response: { deliveries: [delivery], next_cursor: null },
    invalid: 'state=lost',
  },
  retryDeliveries: {
    response: { deliveries: 4, more: false, waiting: 5 } satisfies WebhookRetryObject,
    conflict: conflict('the subscription is inactive'),
    rejected: keyOfOtherContent(),
  },
  replayDelivery: {
    response: waiting,
    conflict: notReplayable('the delivery is waiting already'),
  },
  testWebhook: {
    request: { trigger: body.trigger } satisfies z.input<typeof webhookTestBody>,
    response: test,
    conflict: conflict('the subscription is inactive'),
    invalid: { trigger: 'return.paid' },
  },
  rotateWebhookSecret: {
    request: { overlap_hours: 24 } satisfies z.input<typeof rotateSecretBody>,
    response: second,
    invalid: { overlap_hours: 1000 },
  },
  getWebhookSecret: {
    response: { secrets: [second, { ...first, expires_at: TIMES.overlapEnds }] },
  },
  endEarlierSecrets: {},
} satisfies Record<string, OperationExample>;

/** A filter for the deliveries of two hours in which the receiver was unavailable. */
const outage = {
  webhook_id: WEBHOOK_ID,
  states: ['exhausted', 'delivered'],
  from: TIMES.outageBegan,
  to: TIMES.outageEnded,
} satisfies z.input<typeof replayBody>;
const MATCHED = 1204;
const GONE = 4;
const DONE = 800;

const preview: ReplayPreviewObject = {
  kind: 'replay',
  matched: MATCHED,
  more: false,
  replayable: MATCHED - GONE,
  not_replayable: [{ reason: 'payload_gone', count: GONE }],
  oldest_at: '2026-11-23T08:00:02+00:00',
  newest_at: '2026-11-23T09:59:58+00:00',
};
const started: ReplayObject = {
  id: 1,
  kind: 'replay',
  state: 'running',
  filter: { ...outage, url: null, topic: null, trigger: null, return_id: null },
  total: preview.replayable,
  done: 0,
  skipped: 0,
  started_at: TIMES.rotated,
  finished_at: null,
  error: null,
};
const running: ReplayObject = { ...started, done: DONE };

const conflicting = conflict('another replay or backfill of the subscription is running');
const invalid = { kind: 'backfill', from: outage.from };

export const REPLAY_EXAMPLES = {
  previewReplay: {
    request: outage,
    response: preview,
    conflict: conflict('the subscription is inactive'),
    invalid,
  },
  startReplay: { request: outage, response: started, conflict: conflicting, invalid },
  listReplays: { response: { replays: [running], next_cursor: null }, invalid: 'webhook_id=one' },
  getReplay: { response: running },
  cancelReplay: {
    response: { ...running, state: 'cancelled', finished_at: '2026-11-24T11:00:09+00:00' },
  },
} satisfies Record<string, OperationExample>;
