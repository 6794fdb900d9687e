import { create } from '@bufbuild/protobuf';
import {
  type WebhookSubscription,
  WebhookSubscriptionSchema,
} from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { NewEvent } from '../../platform/outbox/append.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, sql } from '../../platform/sql.ts';
import { type QueueRef, queueKeyOf, queueRows } from '../delivery/queue/queue-ref.ts';

/**
 * For each subscription, the message that its events contain. The key is that of its queue. Deleted subscriptions are
 * missing.
 */
export type Descriptions = ReadonlyMap<string, WebhookSubscription>;

interface Row extends QueueRef {
  readonly endpointId: bigint;
  readonly url: string;
  readonly topic: string;
  readonly trigger: string;
}

/**
 * Reads the messages about these subscriptions for their events. Such events are rare, so the statements that record
 * deliveries do not read these values.
 */
export async function describeSubscriptions(
  tx: Queryable,
  of: readonly QueueRef[],
): Promise<Descriptions> {
  const { rows } = await tx.query<Row>(
    named(
      'describe-subscriptions',
      sql`select s.shop_id as "shopId", s.id as "subscriptionId", s.endpoint_id as "endpointId", e.url, s.topic, s.trigger
            from ${queueRows('g', of)}
            join subscriptions s on s.shop_id = g.shop_id and s.id = g.subscription_id and s.deleted_at is null
            join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id`,
    ),
  );
  return new Map(
    rows.map((row) => {
      const { subscriptionId: id, endpointId, topic, trigger } = row;
      const host = URL.canParse(row.url) ? new URL(row.url).host : '';
      const about = create(WebhookSubscriptionSchema, { id, endpointId, host, topic, trigger });
      return [queueKeyOf(row), about];
    }),
  );
}

/** Returns the shop and the key for an event about a subscription. Events of one subscription stay in order. */
export function keyOfSubscription(queue: QueueRef): Pick<NewEvent, 'shopId' | 'key'> {
  return { shopId: queue.shopId, key: queueKeyOf(queue) };
}
