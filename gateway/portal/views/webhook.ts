import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SecretSchema, WebhookSchema } from '../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import {
  type LastFailure,
  type Secret,
  type Subscription,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { healthOf } from '../../../services/contract/views/webhook.ts';
import { personView } from './values.ts';

type WebhookView = MessageInitShape<typeof WebhookSchema>;

/** @param o.withResponse for users who may read what receivers answer. */
export function webhookView(
  one: Subscription,
  o: { readonly withResponse: boolean } = { withResponse: false },
): WebhookView {
  const { id, topic, trigger, url, status, description, delivers, createdAt, updatedAt } = one;
  const { formerSecretsUntil } = one;
  const by = personView(one.secretShownTo);
  return {
    id: String(id),
    topic,
    trigger,
    url,
    description,
    delivers,
    status: status === SubscriptionStatus.INACTIVE ? 'inactive' : 'active',
    ...(createdAt && { createdAt }),
    ...(updatedAt && { updatedAt }),
    health: healthView(one, o),
    ...(formerSecretsUntil && { formerSecretsUntil }),
    ...(one.secretShownAt && {
      secretLastShown: { at: one.secretShownAt, ...(by && { by }) },
    }),
  };
}

function healthView(
  one: Subscription,
  { withResponse }: { readonly withResponse: boolean },
): WebhookView['health'] {
  const { health, backlog, inactiveSince, failingSince, disablesAt, lastFailure } = one;
  const oldest = backlog?.oldestAt ?? health?.oldestWaitingAt;
  return {
    state: stateOf(one),
    inactiveReason: one.inactiveReason,
    ...(inactiveSince && { inactiveSince }),
    failures: one.failures,
    ...(failingSince && { failingSince }),
    ...(disablesAt && { disablesAt }),
    succeeded24h: health?.delivered ?? 0,
    failed24h: (health?.counted ?? 0) - (health?.delivered ?? 0),
    waiting: backlog?.count ?? 0,
    moreWaiting: backlog?.more ?? false,
    ...(oldest && { oldestWaitingAt: oldest }),
    ...(backlog?.nextAttemptAt && { nextAttemptAt: backlog.nextAttemptAt }),
    ...(health?.pausedSince && { pausedSince: health.pausedSince }),
    ...(lastFailure && { lastFailure: failureView(lastFailure, withResponse) }),
  };
}

function failureView(
  { deliveryId, startedAt, status, error, url, responseExcerpt }: LastFailure,
  withResponse: boolean,
) {
  return {
    deliveryId,
    status,
    error,
    url,
    ...(startedAt && { startedAt }),
    ...(withResponse && { responseExcerpt }),
  };
}

/** The health as REST says it, with more words: who made it inactive, and why there is nothing to say. */
function stateOf(one: Subscription): string {
  const state = healthOf(one);
  switch (state) {
    case 'inactive':
      return one.inactiveReason === '' ? 'inactive' : 'deactivated';
    case 'paused':
      return one.failures > 0 ? 'failing' : 'paused';
    case 'healthy':
      if ((one.health?.counted ?? 0) > 0) return 'healthy';
      return one.health?.countedSince ? 'untried' : 'idle';
    default:
      return state;
  }
}

export function secretView(secret: Secret): MessageInitShape<typeof SecretSchema> {
  const { value, createdAt, expiresAt } = secret;
  return { value, ...(createdAt && { createdAt }), ...(expiresAt && { expiresAt }) };
}
