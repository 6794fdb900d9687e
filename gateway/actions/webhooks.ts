import { randomUUID } from 'node:crypto';
import {
  type CreateSubscriptionResponse,
  type Subscription,
  SubscriptionStatus,
  SubscriptionStatusSchema,
  type SubscriptionValues,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { WebhookBody } from '../../services/contract/resources/webhook.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { addressWithoutSecrets, changesOf } from '../tenancy/field-change.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** The fields to change; absent fields are not changed. */
export type WebhookChange = {
  readonly [K in keyof WebhookBody]?: WebhookBody[K] | undefined;
};

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
 *   Without one, this function makes a key that only covers the retries of its own RPC.
 */
export async function createWebhook(
  context: ActionContext,
  body: WebhookBody,
  idempotencyKey: string = randomUUID(),
): Promise<CreateSubscriptionResponse> {
  const created = await context.services.webhooks.createSubscription({
    ...callerOf(context),
    ...fieldsOf(body),
    idempotencyKey,
  });
  noteWebhook(context, { to: created.subscription });
  return created;
}

export interface UpdatedWebhook {
  readonly subscription: Subscription;
  /** The API version of the shop's payloads. */
  readonly payloadVersion: string;
  /** Ids of the shop's other subscriptions with the same address, topic and trigger. */
  readonly equal: readonly bigint[];
}

/** Changes a subscription. Absent fields are not changed. */
export async function updateWebhook(
  context: ActionContext,
  subscriptionId: bigint,
  change: WebhookChange,
  idempotencyKey = '',
): Promise<UpdatedWebhook> {
  const updated = await context.services.webhooks.updateSubscription({
    ...callerOf(context),
    ...fieldsOf(change),
    subscriptionId,
    idempotencyKey,
  });
  const { subscription, previous, payloadVersion, equalSubscriptionIds: equal } = updated;
  if (previous) noteWebhook(context, { from: previous, to: subscription });
  return { subscription: sent(subscription, 'subscription'), payloadVersion, equal };
}

/** Deletes a subscription and its pending deliveries. */
export async function deleteWebhook(context: ActionContext, subscriptionId: bigint): Promise<void> {
  const request = { ...callerOf(context), subscriptionId };
  const { previous } = await context.services.webhooks.deleteSubscription(request);
  noteWebhook(context, { from: previous });
}

type Values = Omit<SubscriptionValues, '$typeName' | '$unknown'>;

/** Notes the changed values for the audit log: all of a new or of a deleted webhook. */
export function noteWebhook(
  { noteChanges }: ActionContext,
  { from, to }: { readonly from?: Values | undefined; readonly to?: Values | undefined },
): void {
  const both = (read: (values: Values) => string) => [from && read(from), to && read(to)] as const;
  noteChanges?.(
    changesOf({
      topic: both(({ topic }) => topic),
      trigger: both(({ trigger }) => trigger),
      url: both(({ url }) => addressWithoutSecrets(url)),
      status: both(({ status }) => STATUS.toText(status)),
      description: both(({ description }) => description),
    }),
  );
}

function fieldsOf({ topic, trigger, url, status }: WebhookChange) {
  return {
    topic: topic ?? '',
    trigger: trigger ?? '',
    url: url ?? '',
    status: status ? STATUS.fromText(status) : SubscriptionStatus.UNSPECIFIED,
  };
}
