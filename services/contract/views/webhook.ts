import {
  type Secret,
  type Subscription,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { CreatedWebhook, Webhook } from '../resources/webhook.ts';
import type { WebhookSecretObject } from '../resources/webhook-secret.ts';
import { TOPICS, TRIGGERS } from '../vocabulary.ts';
import { iso, requiredIso } from './values.ts';

/** Interface: Webhook subscription. Throws for a topic or trigger that the interface does not name. */
export function webhookView(subscription: Subscription): Webhook {
  const topic = TOPICS.find((name) => name === subscription.topic);
  const trigger = TRIGGERS.find((name) => name === subscription.trigger);
  if (topic === undefined || trigger === undefined) {
    throw new Error(`subscription ${subscription.id} has an unknown topic or trigger`);
  }
  return {
    id: Number(subscription.id),
    topic,
    trigger,
    url: subscription.url,
    status: subscription.status === SubscriptionStatus.INACTIVE ? 'inactive' : 'active',
  };
}

/** The response of create, with the secret. */
export function createdWebhookView(subscription: Subscription, secret: string): CreatedWebhook {
  return { ...webhookView(subscription), secret };
}

/** A signing secret. Throws when its time is missing. */
export function webhookSecretView({ value, createdAt, expiresAt }: Secret): WebhookSecretObject {
  return {
    secret: value,
    created_at: requiredIso(createdAt, 'a secret'),
    expires_at: iso(expiresAt),
  };
}
