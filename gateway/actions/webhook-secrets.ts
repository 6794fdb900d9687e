import type { Delivery, Secret } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SECRET_OVERLAP_HOURS_DEFAULT } from '../../services/contract/limits.ts';
import type { Trigger } from '../../services/contract/vocabulary.ts';
import { changesOf } from '../tenancy/field-change.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/**
 * Sends a test event to an active subscription, and returns its delivery.
 *
 * @param o.trigger any trigger that the topic delivers; that of the subscription when absent.
 * @param o.version API version of the payload; that of the shop when absent.
 * @param o.idempotencyKey at most 200 characters; a repeat with the same key returns the same delivery.
 */
export async function sendTest(
  context: ActionContext,
  subscriptionId: bigint,
  o: {
    readonly trigger: Trigger | undefined;
    readonly version?: string;
    readonly idempotencyKey: string;
  },
): Promise<Delivery> {
  const { trigger = '', version = '', idempotencyKey } = o;
  const { delivery } = await context.services.webhooks.sendTest({
    ...callerOf(context),
    subscriptionId,
    trigger,
    version,
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
  const hours = String(overlapHours ?? SECRET_OVERLAP_HOURS_DEFAULT);
  context.noteChanges?.(changesOf({ overlap_hours: [undefined, hours] }));
  return sent(secret, 'secret');
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
 * Returns the secrets that sign the deliveries of a subscription, newest first. Both callers write the audit log. REST
 * does it for an operation with `reveals: true` (`rest/audited.ts`), the portal for an RPC whose option `audit` is true
 * (`portal/interceptors.ts`).
 */
export async function revealSecret(
  context: ActionContext,
  subscriptionId: bigint,
): Promise<readonly Secret[]> {
  const { webhooks } = context.services;
  return (await webhooks.revealSecret({ ...callerOf(context), subscriptionId })).secrets;
}
