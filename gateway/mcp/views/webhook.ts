import { z } from 'zod';
import type {
  CreateSubscriptionResponse,
  Subscription,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { choice, requiredText } from '../../../services/contract/resources/fields.ts';
import { webhookFields } from '../../../services/contract/resources/webhook.ts';
import { iso } from '../../../services/contract/views/values.ts';
import {
  warningsOf,
  webhookFieldsView,
  webhookView,
} from '../../../services/contract/views/webhook.ts';
import {
  TOPICS,
  TRIGGERS,
  WEBHOOK_HEALTH,
  WEBHOOK_STATUSES,
} from '../../../services/contract/vocabulary.ts';
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

/** Where a person reads a secret. No result of a tool contains one. */
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
  const { id } = webhookFieldsView(subscription);
  return {
    webhook_id: id,
    delivers: subscription.delivers,
    warnings: warningsOf(subscription, response.equalSubscriptionIds).map(({ message }) => message),
    secret_hint: secretHint(id),
  };
}

/** The schema of a time that is absent when there is none. */
const when = () => z.string().optional();

/**
 * A webhook and the state of its deliveries. A field without a value is absent: in the list of tools, an optional field
 * costs half the tokens of one that may be null. The result of a change has no health, which only the list reads. It
 * never contains the secret.
 */
export const webhookHealth = z.strictObject({
  ...undescribed(webhookFields.shape),
  delivers: z.boolean().describe('False if the topic never delivers this trigger'),
  health: z
    .enum(WEBHOOK_HEALTH)
    .optional()
    .describe('healthy, failing, paused (only probes) or inactive'),
  success_rate_24h: z.number().optional().describe('0 to 1'),
  failures: z.int().describe('Failed attempts since the last success'),
  failing_since: when(),
  disables_at: when().describe('When it becomes inactive if all attempts continue to fail'),
  oldest_waiting_at: when(),
  inactive_since: when(),
  inactive_reason: z.string().optional().describe('Absent when a person deactivated it'),
  backlog: described(
    'Waiting and held deliveries: count, more, oldest_at',
    z.strictObject({ count: z.int(), more: z.boolean(), oldest_at: when() }),
  ).optional(),
});

/** Fields with the value `undefined` are not in the result. */
export function webhookHealthView(subscription: Subscription): z.output<typeof webhookHealth> {
  const { backlog } = subscription;
  return {
    ...webhookFieldsView(subscription),
    delivers: subscription.delivers,
    ...(subscription.health && healthFieldsView(subscription)),
    failures: subscription.failures,
    failing_since: time(subscription.failingSince),
    disables_at: time(subscription.disablesAt),
    inactive_since: time(subscription.inactiveSince),
    inactive_reason: subscription.inactiveReason || undefined,
    backlog: backlog && {
      count: backlog.count,
      more: backlog.more,
      oldest_at: time(backlog.oldestAt),
    },
  };
}

/** The health in the words of REST. */
function healthFieldsView(subscription: Subscription) {
  const { health, success_rate_24h, oldest_waiting_at } = webhookView(subscription);
  return {
    health,
    success_rate_24h: success_rate_24h ?? undefined,
    oldest_waiting_at: oldest_waiting_at ?? undefined,
  };
}

function time(at: Parameters<typeof iso>[0]): string | undefined {
  return iso(at) ?? undefined;
}
