import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  SubscriptionDisabled_Reason,
  SubscriptionDisabledSchema,
  SubscriptionFailingSchema,
  type WebhookSubscription,
} from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { systemActor } from '../../platform/identity.ts';
import { errorForPartners } from '../../platform/outbound/failure.ts';
import { appendEvents, type NewEvent } from '../../platform/outbox/append.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { queueKeyOf } from '../delivery/queue/queue-ref.ts';
import { deactivatesAtMs } from '../delivery/results/deactivate.ts';
import type { Notice } from '../delivery/results/notice.ts';
import { describeSubscriptions, keyOfSubscription } from './describe.ts';

/** The actor of what the service does on its own, without a call. */
export const WEBHOOKS = create(ActorSchema, systemActor('webhooks'));

/**
 * Appends `subscription.failing` and `subscription.disabled` in the transaction that counts the failures. The caller
 * must have locked the subscriptions. Without notices, this runs no statement.
 */
export async function announceFailures(tx: Queryable, notices: readonly Notice[]): Promise<void> {
  if (notices.length === 0) return;
  const descriptions = await describeSubscriptions(tx, notices);
  await appendEvents(
    tx,
    notices.flatMap((notice) => {
      const subscription = descriptions.get(queueKeyOf(notice));
      return subscription ? [eventOf(notice, subscription)] : [];
    }),
  );
}

function eventOf(notice: Notice, subscription: WebhookSubscription): NewEvent {
  const { failures, failingSinceMs } = notice;
  const lastError = errorForPartners(notice.lastError);
  const common = { ...keyOfSubscription(notice), actor: WEBHOOKS };
  const value = {
    subscription,
    failures,
    lastError,
    ...(failingSinceMs !== null && { failingSince: timestampFromDate(new Date(failingSinceMs)) }),
  };
  if (notice.kind === 'deactivated') {
    const reason = REASONS[notice.cause];
    const deactivated = create(SubscriptionDisabledSchema, { ...value, reason });
    const detail = { case: 'subscriptionDisabled', value: deactivated } as const;
    return { ...common, trigger: 'subscription.disabled', detail };
  }
  const failing = create(SubscriptionFailingSchema, {
    ...value,
    percent: notice.percent,
    ...(failingSinceMs !== null && {
      disablesAt: timestampFromDate(new Date(deactivatesAtMs(failingSinceMs))),
    }),
  });
  const detail = { case: 'subscriptionFailing', value: failing } as const;
  return { ...common, trigger: 'subscription.failing', detail };
}

const REASONS = {
  gone: SubscriptionDisabled_Reason.GONE,
  failures: SubscriptionDisabled_Reason.FAILURES,
} as const;
