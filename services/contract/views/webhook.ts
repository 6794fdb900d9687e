import {
  type Subscription,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { CreatedWebhook, Webhook } from '../resources/webhook.ts';
import { TOPICS, TRIGGERS } from '../vocabulary.ts';

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

/** The response of create, the only one with the secret. */
export function createdWebhookView(subscription: Subscription, secret: string): CreatedWebhook {
  return { ...webhookView(subscription), secret };
}
