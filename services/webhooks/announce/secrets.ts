import { create } from '@bufbuild/protobuf';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { SecretRevealedSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { appendEvents } from '../../platform/outbox/append.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { type QueueRef, queueKeyOf } from '../delivery/queue/queue-ref.ts';
import { describeSubscriptions, keyOfSubscription } from './describe.ts';

/**
 * Appends `secret.revealed` in the transaction that reads or rotates the signing secrets of a subscription. The caller
 * must have locked the subscription.
 */
export async function announceRevealed(
  tx: Queryable,
  of: QueueRef,
  o: { readonly actor: Actor | undefined; readonly rotated: boolean },
): Promise<void> {
  const subscription = (await describeSubscriptions(tx, [of])).get(queueKeyOf(of));
  if (!subscription || !o.actor)
    throw new Error('a revealed secret has a subscription and an actor');
  const value = create(SecretRevealedSchema, { subscription, rotated: o.rotated });
  const detail = { case: 'secretRevealed', value } as const;
  const about = { ...keyOfSubscription(of), trigger: 'secret.revealed', actor: o.actor };
  await appendEvents(tx, [{ ...about, detail }]);
}
