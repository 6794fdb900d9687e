import type { Queryable } from '../../platform/postgres.ts';
import { notifyDue } from '../delivery/queue/notify.ts';
import { lockQueue } from '../delivery/queue/queue-changes.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';
import { redactedAmong, returnKeyOf } from '../fan-out/fan-out.ts';
import { insertDeliveries, type NewDelivery } from '../fan-out/insert.ts';
import { bodyWithoutCustomer } from '../fan-out/shape.ts';

/**
 * Writes deliveries of old events to one subscription. They are sent after fresh deliveries. Customers that were
 * redacted in the meantime are left out. The caller must hold the lock of the shop until its commit, which excludes
 * redactions.
 *
 * @returns the ids of the new deliveries.
 */
export async function addBackfilled(
  tx: Queryable,
  queue: QueueRef,
  deliveries: readonly NewDelivery[],
  o: { offsetMs: number },
): Promise<string[]> {
  if (deliveries.length === 0) return [];
  const redacted = await redactedAmong(
    tx,
    deliveries.map(({ event }) => event),
  );
  const allowed = deliveries.map((delivery) => {
    if (!redacted.has(returnKeyOf(delivery.event))) return delivery;
    return { ...delivery, body: bodyWithoutCustomer(delivery.topic, delivery.body) };
  });
  await lockQueue(tx, queue);
  const { offsetMs } = o;
  const added = await insertDeliveries(tx, allowed, { offsetMs, isRetry: true });
  if (added.length === 0) return [];
  await notifyDue(tx, [queue], { isChange: false });
  return added.map(({ id }) => id);
}
