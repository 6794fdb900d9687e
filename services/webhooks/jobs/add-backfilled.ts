import type { Queryable } from '../../platform/postgres.ts';
import { announce } from '../delivery/announce.ts';
import { lockLane } from '../delivery/lane-changes.ts';
import { redactedAmong } from '../fan-out/fan-out.ts';
import { insertDeliveries, type NewDelivery } from '../fan-out/insert.ts';
import { encodeBody, withoutCustomer } from '../fan-out/without-customer.ts';

interface LaneOf {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
}

/**
 * Writes deliveries of old events to one subscription, to be sent after fresh ones. Customers that were
 * redacted since are left out; the caller keeps redactions of the shop away until its commit.
 *
 * @returns how many are new.
 */
export async function addBackfilled(
  tx: Queryable,
  lane: LaneOf,
  deliveries: readonly NewDelivery[],
  o: { offsetMs: number },
): Promise<number> {
  if (deliveries.length === 0) return 0;
  const redacted = await redactedAmong(
    tx,
    deliveries.map(({ event }) => event),
  );
  const fitting = deliveries.map((delivery) => {
    const { shopId, returnId } = delivery.event;
    return redacted.has(`${shopId}:${returnId}`) ? anonymous(delivery) : delivery;
  });
  await lockLane(tx, lane);
  const { offsetMs } = o;
  const ids = await insertDeliveries(tx, fitting, { offsetMs, isRetry: true });
  if (ids.length === 0) return 0;
  await announce(tx, [lane], { isChange: false });
  return ids.length;
}

function anonymous(delivery: NewDelivery): NewDelivery {
  // The bytes are our own: an object, by construction.
  const payload: object = JSON.parse(Buffer.from(delivery.body).toString('utf8'));
  return { ...delivery, body: encodeBody(withoutCustomer(delivery.topic, payload)) };
}
