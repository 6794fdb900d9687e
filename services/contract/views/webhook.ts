import {
  type Secret,
  type Subscription,
  type SubscriptionHealth,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type {
  CreatedWebhook,
  Webhook,
  WebhookFields,
  WebhookSecretObject,
} from '../resources/webhook.ts';
import { triggersOf } from '../topics/topics.ts';
import { TOPICS, TRIGGERS } from '../vocabulary.ts';
import { iso, requiredIso, textOrNull } from './values.ts';

/**
 * The fields of a subscription in the interface (interface: Webhook subscription). Throws for a topic or trigger that
 * is not in the interface.
 */
export function webhookFieldsView(subscription: Subscription): WebhookFields {
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

/** The response of create webhook, with the secret. */
export function createdWebhookView(
  subscription: Subscription,
  o: {
    readonly secret: string;
    readonly payloadVersion: string;
    readonly equalSubscriptionIds: readonly bigint[];
  },
): CreatedWebhook {
  return {
    ...webhookFieldsView(subscription),
    secret: o.secret,
    delivers: subscription.delivers,
    payload_version: o.payloadVersion,
    warnings: warningsOf(subscription, o.equalSubscriptionIds),
  };
}

/**
 * Warnings about a subscription that probably does not do what its owner wanted. Each is a sentence in ASCII.
 *
 * @param equal ids of the shop's other subscriptions with the same address, topic and trigger.
 */
export function warningsOf(
  { topic, trigger, delivers }: Subscription,
  equal: readonly bigint[],
): CreatedWebhook['warnings'] {
  if (!delivers) {
    const delivered = triggersOf(topic).join(', ');
    const message = `Topic ${topic} never delivers ${trigger}. It delivers ${delivered}.`;
    return [{ code: 'NEVER_DELIVERS', message }];
  }
  return equal.length === 0 ? [] : [{ code: 'DUPLICATE', message: duplicateOf(equal) }];
}

/** Maximum number of ids in a warning. A shop may have a hundred equal subscriptions. */
const NAMED_MAX = 5;

function duplicateOf(equal: readonly bigint[]): string {
  const rest = equal.length - NAMED_MAX;
  const ids = `${equal.slice(0, NAMED_MAX).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
  const [who, times] =
    equal.length === 1
      ? [`Webhook ${ids} has`, 'twice while both are']
      : [`Webhooks ${ids} have`, `${equal.length + 1} times while all are`];
  return `${who} the same address, topic and trigger: each event is sent to it ${times} active, each time with another webhook-id.`;
}

/** A subscription with the state of its deliveries. Throws when the message has no health. */
export function webhookView(subscription: Subscription): Webhook {
  const { health } = subscription;
  if (!health) throw new Error(`subscription ${subscription.id} without its health`);
  return {
    ...webhookFieldsView(subscription),
    delivers: subscription.delivers,
    payload_version: health.payloadVersion,
    health: healthOf(subscription),
    success_rate_24h: rateOf(health),
    failures: subscription.failures,
    failing_since: iso(subscription.failingSince),
    disables_at: iso(subscription.disablesAt),
    oldest_waiting_at: iso(health.oldestWaitingAt),
    inactive_since: iso(subscription.inactiveSince),
    inactive_reason: textOrNull(subscription.inactiveReason),
    created_at: requiredIso(subscription.createdAt, 'a subscription'),
    updated_at: requiredIso(subscription.updatedAt, 'a subscription'),
  };
}

/** The health of a subscription, for REST, MCP tools and the portal. It is `healthy` when nothing was attempted. */
export function healthOf({ status, failures, health }: Subscription): Webhook['health'] {
  if (status === SubscriptionStatus.INACTIVE) return 'inactive';
  if (health?.pausedSince) return 'paused';
  return failures > 0 ? 'failing' : 'healthy';
}

/** The success rate: a number with four decimals, rounded down; null when no delivery counts. */
function rateOf({ counted, delivered }: SubscriptionHealth): number | null {
  return counted === 0 ? null : Math.floor((delivered / counted) * 10_000) / 10_000;
}

/** A signing secret. Throws when its time is missing. */
export function webhookSecretView({ value, createdAt, expiresAt }: Secret): WebhookSecretObject {
  return {
    secret: value,
    created_at: requiredIso(createdAt, 'a secret'),
    expires_at: iso(expiresAt),
  };
}
