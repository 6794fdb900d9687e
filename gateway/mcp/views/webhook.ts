import { z } from 'zod';
import type {
  CreateSubscriptionResponse,
  Subscription,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { choice, requiredText } from '../../../services/contract/resources/fields.ts';
import { webhook, webhookFields } from '../../../services/contract/resources/webhook.ts';
import { iso, textOrNull } from '../../../services/contract/views/values.ts';
import {
  createdWebhookView,
  webhookFieldsView,
  webhookView,
} from '../../../services/contract/views/webhook.ts';
import { TOPICS, TRIGGERS, WEBHOOK_STATUSES } from '../../../services/contract/vocabulary.ts';
import { URL_MAX } from '../../../services/platform/text.ts';
import { sent } from '../../actions/context.ts';
import { described, undescribed } from '../result-schema.ts';

/** The arguments of a new or changed webhook. */
export const webhookArguments = {
  topic: choice(TOPICS).describe('Selects the form of the payload'),
  trigger: choice(TRIGGERS).describe('Selects the event'),
  url: requiredText({ max: URL_MAX }).describe('Absolute https address of a public host'),
  status: choice(WEBHOOK_STATUSES).optional(),
};

/** Where a person reads a secret, which no result contains. */
export function secretHint(webhookId: number): string {
  return `Assistants never get the signing secret. A person reads it with GET /api/webhooks/${webhookId}/secret and an API key with the scope developer_tools.`;
}

/** A new webhook. Never contains the secret. */
export const createdWebhookOutput = z.strictObject({
  webhook_id: z.int(),
  delivers: z.boolean(),
  warnings: z.array(z.string()),
  secret_hint: z.string(),
});

export function createdWebhookOutputView(
  response: CreateSubscriptionResponse,
): z.output<typeof createdWebhookOutput> {
  const subscription = sent(response.subscription, 'subscription');
  const { id, delivers, warnings } = createdWebhookView(subscription, '');
  return {
    webhook_id: id,
    delivers,
    warnings: warnings.map(({ message }) => message),
    secret_hint: secretHint(id),
  };
}

const when = () => z.string().nullable().meta({ format: 'date-time' });

/** A webhook after a change. Never contains the secret. */
export const changedWebhook = z.strictObject({
  ...undescribed(webhookFields.shape),
  delivers: z.boolean().describe('False if the topic never delivers this trigger'),
  failures: z.int().describe('Failed attempts since the last success'),
  failing_since: when(),
  disables_at: when().describe('When it becomes inactive if all attempts continue to fail'),
  inactive_since: when(),
  inactive_reason: z.string().nullable().describe('null when a user or operator deactivated it'),
  backlog: described(
    'Waiting and held deliveries: count, more, oldest_at',
    z.strictObject({ count: z.int(), more: z.boolean(), oldest_at: when() }),
  ).nullable(),
});

const { health, success_rate_24h, oldest_waiting_at } = webhook.shape;

/** A webhook and how its deliveries fare, as REST says it. Never contains the secret. */
export const listedWebhook = changedWebhook.extend({
  health: health.describe('healthy, failing, paused (only probes are sent) or inactive'),
  success_rate_24h: success_rate_24h.describe(
    'Share of the deliveries of 24 hours that arrived, 0 to 1',
  ),
  oldest_waiting_at: oldest_waiting_at.describe('Time of the oldest event that waits'),
});

export function changedWebhookView(subscription: Subscription): z.output<typeof changedWebhook> {
  const { backlog } = subscription;
  return {
    ...webhookFieldsView(subscription),
    delivers: subscription.delivers,
    failures: subscription.failures,
    failing_since: iso(subscription.failingSince),
    disables_at: iso(subscription.disablesAt),
    inactive_since: iso(subscription.inactiveSince),
    inactive_reason: textOrNull(subscription.inactiveReason),
    backlog: backlog
      ? { count: backlog.count, more: backlog.more, oldest_at: iso(backlog.oldestAt) }
      : null,
  };
}

/** Throws when the message has no health. */
export function listedWebhookView(subscription: Subscription): z.output<typeof listedWebhook> {
  const { health, success_rate_24h, oldest_waiting_at } = webhookView(subscription);
  return { ...changedWebhookView(subscription), health, success_rate_24h, oldest_waiting_at };
}
