import { timestampNow } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { sampleEvent } from '../contract/sample-event.ts';
import { payloadVersionServed } from '../contract/versions.ts';
import { TRIGGERS } from '../contract/vocabulary.ts';
import { invalidField } from '../platform/errors.ts';
import { inTransaction } from '../platform/postgres.ts';
import { currentTraceparent } from '../platform/telemetry.ts';
import { notifyDue } from './delivery/queue/notify.ts';
import { lockQueue } from './delivery/queue/queue-changes.ts';
import { insertDeliveries } from './fan-out/insert.ts';
import { shapeBody } from './fan-out/shape.ts';
import { stateForbids } from './log/delivery.ts';
import { getDelivery } from './log/get.ts';
import type { LoggedDelivery } from './log/rows.ts';
import { payloadVersion } from './subscriptions/payload-version.ts';
import { subscriptionNotFound } from './subscriptions/subscription.ts';
import { lockSubscriptionShared } from './subscriptions/subscription-store.ts';

/**
 * Writes a delivery of documented sample data to one subscription. It is sent like any other.
 *
 * @param o.trigger any trigger that the subscription's topic delivers; its own when empty.
 * @throws DomainError NOT_FOUND; INVALID_ARGUMENT when the topic does not deliver the trigger; FAILED_PRECONDITION when
 *   the subscription is inactive.
 */
export function addTestDelivery(
  pool: pg.Pool,
  o: { shopId: bigint; subscriptionId: bigint; trigger: string; today: Date; offsetMs: number },
): Promise<LoggedDelivery> {
  return inTransaction(pool, async (tx) => {
    const subscription = await lockSubscriptionShared(tx, o);
    if (!subscription) throw subscriptionNotFound(o.subscriptionId);
    const wanted = o.trigger === '' ? subscription.trigger : o.trigger;
    const trigger = TRIGGERS.find((known) => known === wanted);
    if (!trigger) throw invalidField('trigger', `must be one of ${TRIGGERS.join(', ')}`);
    if (!subscription.isActive) throw stateForbids('the subscription is inactive');
    const stored = await payloadVersion(tx, o.shopId, o.today);
    const { version } = payloadVersionServed(stored, o.today);
    const event = {
      ...sampleEvent(trigger, o.shopId),
      occurredAt: timestampNow(),
      traceparent: currentTraceparent(),
    };
    const { topic } = subscription;
    const body = shapeBody(event, { topic, version, isRedacted: false });
    if (!body) throw invalidField('trigger', `is not delivered to topic ${topic}`);
    const { subscriptionId } = o;
    const delivery = { event, subscriptionId, topic, version, body, isTest: true };
    await lockQueue(tx, o);
    const [added] = await insertDeliveries(tx, [delivery], o);
    await notifyDue(tx, [o], { isChange: false });
    return getDelivery(tx, { shopId: o.shopId, id: added?.id ?? '', withBody: false });
  });
}
