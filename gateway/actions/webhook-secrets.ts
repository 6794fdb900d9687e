import type { Delivery, Secret } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SECRET_OVERLAP_HOURS_DEFAULT } from '../../services/contract/limits.ts';
import type { Trigger } from '../../services/contract/vocabulary.ts';
import { changesOf } from '../tenancy/field-change.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/**
 * Sends a test event to an active subscription, and returns its delivery.
 *
 * @param o.trigger any trigger that the topic delivers; that of the subscription when absent.
 * @param o.idempotencyKey at most 200 characters; a repeat with the same key returns the same delivery.
 */
export async function sendTest(
  context: ActionContext,
  subscriptionId: bigint,
  o: { readonly trigger: Trigger | undefined; readonly idempotencyKey: string },
): Promise<Delivery> {
  const { trigger = '', idempotencyKey } = o;
  const { delivery } = await context.services.webhooks.sendTest({
    ...callerOf(context),
    subscriptionId,
    trigger,
    idempotencyKey,
  });
  return sent(delivery, 'delivery');
}

/**
 * Makes a new signing secret of a subscription, and returns it.
 *
 * @param o.overlapHours how long the earlier secrets still sign, 0 to 168; 24 when absent.
 * @param o.idempotencyKey at most 200 characters; a repeat with the same key returns the same secret.
 */
export async function rotateSecret(
  context: ActionContext,
  subscriptionId: bigint,
  o: { readonly overlapHours: number | undefined; readonly idempotencyKey: string },
): Promise<Secret> {
  const { overlapHours, idempotencyKey } = o;
  const { secret } = await context.services.webhooks.rotateSecret({
    ...callerOf(context),
    subscriptionId,
    idempotencyKey,
    ...(overlapHours !== undefined && { overlapHours }),
  });
  noteOverlap(context, overlapHours);
  return sent(secret, 'secret');
}

/** Notes for the audit log how long the earlier secrets still sign. */
export function noteOverlap(
  { noteChanges }: ActionContext,
  overlapHours = SECRET_OVERLAP_HOURS_DEFAULT,
): void {
  noteChanges?.(changesOf({ overlap_hours: [undefined, String(overlapHours)] }));
}

/**
 * Ends the earlier secrets of a subscription: from now on only its newest secret signs. Changes nothing when there is
 * no earlier one.
 */
export async function endEarlierSecrets(
  context: ActionContext,
  subscriptionId: bigint,
): Promise<void> {
  await context.services.webhooks.endFormerSecrets({ ...callerOf(context), subscriptionId });
}

/**
 * Returns the secrets that sign the deliveries of a subscription, newest first. The audit log of REST records it, because
 * the operation has `reveals: true` (`rest/audited.ts`).
 */
export async function revealSecret(
  context: ActionContext,
  subscriptionId: bigint,
): Promise<readonly Secret[]> {
  const { webhooks } = context.services;
  return (await webhooks.revealSecret({ ...callerOf(context), subscriptionId })).secrets;
}
