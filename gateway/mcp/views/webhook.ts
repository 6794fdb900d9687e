import { z } from 'zod';
import type {
  CreateSubscriptionResponse,
  Subscription,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { choice, requiredText } from '../../../services/contract/resources/fields.ts';
import { webhookFields } from '../../../services/contract/resources/webhook.ts';
import { iso, textOrNull } from '../../../services/contract/views/values.ts';
import { createdWebhookView, webhookFieldsView } from '../../../services/contract/views/webhook.ts';
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

/** A webhook and its delivery health. Never contains the secret. */
export const webhookHealth = z.strictObject({
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

export function webhookHealthView(subscription: Subscription): z.output<typeof webhookHealth> {
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
