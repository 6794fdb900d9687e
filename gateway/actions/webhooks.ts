import { randomUUID } from 'node:crypto';
import {
  type CreateSubscriptionResponse,
  type Subscription,
  SubscriptionStatus,
  SubscriptionStatusSchema,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { WebhookBody } from '../../services/contract/resources/webhook.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** The fields to change; absent fields are not changed. */
export type WebhookChange = { readonly [K in keyof WebhookBody]?: WebhookBody[K] | undefined };

const STATUS = enumText(SubscriptionStatusSchema);

/**
 * Returns the shop's subscriptions, ordered by id.
 *
 * @param o.backlog whether to include the backlog of each subscription.
 * @param o.health whether to include the health of each subscription.
 */
export async function listWebhooks(
  context: ActionContext,
  { backlog = false, health = false }: { backlog?: boolean; health?: boolean } = {},
): Promise<Subscription[]> {
  const { webhooks } = context.services;
  const request = { ...callerOf(context), includeBacklog: backlog, includeHealth: health };
  return (await webhooks.listSubscriptions(request)).subscriptions;
}

/** Returns a subscription with its health. @param o.backlog whether to include its backlog. */
export async function getWebhook(
  context: ActionContext,
  subscriptionId: bigint,
  { backlog = false }: { backlog?: boolean } = {},
): Promise<Subscription> {
  const request = { ...callerOf(context), subscriptionId, includeBacklog: backlog };
  const { subscription } = await context.services.webhooks.getSubscription(request);
  return sent(subscription, 'subscription');
}

/** Returns the API version of the shop's payloads, such as `2026-07`. */
export async function getPayloadVersion(context: ActionContext): Promise<string> {
  return (await context.services.webhooks.getPayloadVersion(callerOf(context))).version;
}

/**
 * Creates a subscription. The response has its secret.
 *
 * @param idempotencyKey at most 200 characters; a repeat with the same key returns the same subscription and secret.
 *   Without one, a new key covers the retries of the call.
 */
export function createWebhook(
  context: ActionContext,
  body: WebhookBody,
  idempotencyKey: string = randomUUID(),
): Promise<CreateSubscriptionResponse> {
  return context.services.webhooks.createSubscription({
    ...callerOf(context),
    ...fieldsOf(body),
    idempotencyKey,
  });
}

/** Changes a subscription. Absent fields are not changed. Returns it with the API version of the shop's payloads. */
export async function updateWebhook(
  context: ActionContext,
  subscriptionId: bigint,
  change: WebhookChange,
  idempotencyKey = '',
): Promise<{ readonly subscription: Subscription; readonly payloadVersion: string }> {
  const { subscription, payloadVersion } = await context.services.webhooks.updateSubscription({
    ...callerOf(context),
    ...fieldsOf(change),
    subscriptionId,
    idempotencyKey,
  });
  return { subscription: sent(subscription, 'subscription'), payloadVersion };
}

/** Deletes a subscription and its pending deliveries. */
export async function deleteWebhook(context: ActionContext, subscriptionId: bigint): Promise<void> {
  await context.services.webhooks.deleteSubscription({ ...callerOf(context), subscriptionId });
}

function fieldsOf({ topic, trigger, url, status }: WebhookChange) {
  return {
    topic: topic ?? '',
    trigger: trigger ?? '',
    url: url ?? '',
    status: status ? STATUS.fromText(status) : SubscriptionStatus.UNSPECIFIED,
  };
}
