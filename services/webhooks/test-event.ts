import { hash, randomUUID } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { sampleEvent } from '../contract/sample-event.ts';
import { payloadVersionServed, supportedVersions } from '../contract/versions.ts';
import { TRIGGERS } from '../contract/vocabulary.ts';
import { invalidField, stateForbids } from '../platform/errors.ts';
import { type KeyUse, oncePerKey } from '../platform/idempotency.ts';
import { eventIdAt } from '../platform/outbox/event-id.ts';
import { inTransaction, type Queryable } from '../platform/postgres.ts';
import { currentTraceparent } from '../platform/telemetry.ts';
import { notifyDue } from './delivery/queue/notify.ts';
import { lockQueue } from './delivery/queue/queue-changes.ts';
import { deliveryIdOf, type EventKey } from './delivery-id.ts';
import { insertDeliveries } from './fan-out/insert.ts';
import { shapeBody } from './fan-out/shape.ts';
import { getDelivery } from './log/get.ts';
import type { LoggedDelivery } from './log/rows.ts';
import { payloadVersion } from './subscriptions/payload-version.ts';
import { subscriptionNotFound } from './subscriptions/subscription.ts';
import { lockSubscriptionShared } from './subscriptions/subscription-store.ts';

interface TestEvent {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
  /** A trigger that the subscription's topic delivers. Empty for the trigger of the subscription. */
  readonly trigger: string;
  /** A supported API version. Empty for the version of the shop. */
  readonly version: string;
  readonly today: Date;
  /** Offset of the retry clock. */
  readonly offsetMs: number;
}

/**
 * Writes a delivery with documented sample data to one subscription. It is sent like every other delivery. A repeat
 * with the same idempotency key returns this delivery and sends nothing.
 *
 * @throws DomainError NOT_FOUND, for a repeat also when the delivery is no longer in the log; INVALID_ARGUMENT when the
 *   topic does not deliver the trigger; FAILED_PRECONDITION when the subscription is inactive; IDEMPOTENCY_CONFLICT.
 */
export function sendTest(
  pool: pg.Pool,
  o: TestEvent & { readonly use: KeyUse | undefined },
): Promise<LoggedDelivery> {
  const rest = o.use ? uuidOf(o.use) : randomUUID();
  return inTransaction(pool, async (tx) => {
    // The result of a key is stored as a number, here the time of the event. It is enough to compute the id of the
    // delivery, because the request determines the event and the subscription.
    const { id: occurredAtMs } = await oncePerKey(tx, o.use, async () => {
      const occurredAt = new Date();
      await addTestDelivery(tx, o, { eventId: eventIdAt(occurredAt, rest), occurredAt });
      return BigInt(occurredAt.getTime());
    });
    const occurredAt = new Date(Number(occurredAtMs));
    const event = { eventId: eventIdAt(occurredAt, rest), occurredAt };
    const id = deliveryIdOf(event, o.subscriptionId);
    return getDelivery(tx, { shopId: o.shopId, id, withBody: false });
  });
}

/** Returns a UUID (RFC 9562, version 8). It is the same for every use of a key. */
function uuidOf({ shopId, operation, key }: KeyUse): string {
  const hex = hash('sha256', `${shopId} ${operation} ${key}`, 'hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(12, 15)}-8${hex.slice(15, 18)}-${hex.slice(18, 30)}`;
}

async function addTestDelivery(
  tx: Queryable,
  o: TestEvent,
  { eventId, occurredAt }: EventKey,
): Promise<void> {
  const subscription = await lockSubscriptionShared(tx, o);
  if (!subscription) throw subscriptionNotFound(o.subscriptionId);
  const requested = o.trigger === '' ? subscription.trigger : o.trigger;
  const trigger = TRIGGERS.find((name) => name === requested);
  if (!trigger) throw invalidField('trigger', `must be one of ${TRIGGERS.join(', ')}`);
  if (!subscription.isActive) throw stateForbids('the subscription is inactive');
  const stored = o.version || (await payloadVersion(tx, o.shopId, o.today));
  const { version } = payloadVersionServed(stored, o.today);
  if (o.version !== '' && version !== o.version) {
    throw invalidField('version', `must be one of ${supportedVersions(o.today).join(', ')}`);
  }
  const event = {
    ...sampleEvent(trigger, o.shopId, eventId),
    occurredAt: timestampFromDate(occurredAt),
    traceparent: currentTraceparent(),
  };
  const { topic } = subscription;
  const body = shapeBody(event, { topic, version, isRedacted: false });
  if (!body) throw invalidField('trigger', `is not delivered to topic ${topic}`);
  const { subscriptionId } = o;
  const delivery = { event, subscriptionId, topic, version, body, isTest: true };
  await lockQueue(tx, o);
  await insertDeliveries(tx, [delivery], o);
  await notifyDue(tx, [o], { isChange: false });
}
