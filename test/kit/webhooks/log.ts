import { randomInt } from 'node:crypto';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import type { Topic, Trigger } from '../../../services/contract/vocabulary.ts';
import { eventIdAt } from '../../../services/platform/outbox/event-id.ts';
import { inTransaction } from '../../../services/platform/postgres/postgres.ts';
import { deliveryIdOf } from '../../../services/webhooks/delivery-id.ts';
import { eventKeyOf, insertDeliveries } from '../../../services/webhooks/fan-out/insert.ts';
import {
  deleteSubscription,
  updateSubscription,
} from '../../../services/webhooks/subscriptions/subscription-store.ts';
import { createTestDatabase } from '../database.ts';
import { newSubscription, type SubscriptionInput, subscriptionFields } from './subscription.ts';

export type Ended = 'delivered' | 'exhausted' | 'expired' | 'dropped' | null;

/** A delivery for {@link createLog} to insert. */
export interface NewDelivery {
  readonly subscriptionId: bigint;
  readonly trigger?: Trigger;
  readonly topic?: Topic;
  /** Null or absent: the delivery waits. */
  readonly ended?: Ended;
  readonly at?: Date;
  readonly returnId?: bigint;
  readonly isTest?: boolean;
  readonly withoutBody?: boolean;
  readonly event?: Event;
}

/** The database of webhooks without a dispatcher, so that only the test changes it. */
export async function createLog() {
  const db = await createTestDatabase('webhooks');
  const { pool } = db;
  let lastShop = BigInt(randomInt(1, 2 ** 30)) * 1_000n;

  return {
    db,
    pool,
    newShop(): bigint {
      lastShop += 1n;
      return lastShop;
    },
    subscribe: (shopId: bigint, wish?: SubscriptionInput) => newSubscription(pool, shopId, wish),
    async change(shopId: bigint, id: bigint, o: SubscriptionInput): Promise<void> {
      const limitedDomain = () => undefined;
      await updateSubscription(
        pool,
        { shopId, id },
        { fields: subscriptionFields(o), offsetMs: 0, limitedDomain },
      );
    },
    unsubscribe: (shopId: bigint, id: bigint) => deleteSubscription(pool, shopId, id),
    eventOf,
    /** Inserts deliveries. Returns their ids in the same order. */
    async add(shopId: bigint, all: readonly NewDelivery[]): Promise<string[]> {
      const events = all.map((one) => one.event ?? eventOf(shopId, one));
      const ids = all.map(({ subscriptionId }, at) =>
        deliveryIdOf(eventKeyOf(events[at] ?? eventOf(shopId, {})), subscriptionId),
      );
      await inTransaction(pool, async (tx) => {
        const deliveries = all.map((one, at) => ({
          event: events[at] ?? eventOf(shopId, one),
          subscriptionId: one.subscriptionId,
          topic: one.topic ?? 'return',
          version: '2026-10',
          body: Buffer.from(`{"id":"${ids[at]}"}`),
          isTest: one.isTest ?? false,
        }));
        await insertDeliveries(tx, deliveries, { offsetMs: 0 });
        await tx.query(
          `with g as (select * from unnest($2::uuid[], $3::text[]) as g (id, ended)),
                gone as (delete from queue q using g where q.shop_id = $1 and q.id = g.id and g.ended is not null)
           update deliveries d set ended = g.ended, finished_at = now() from g
            where d.shop_id = $1 and d.id = g.id and g.ended is not null`,
          [shopId, ids, all.map((one) => one.ended ?? null)],
        );
        await tx.query(
          `update payloads p set body = null from deliveries d
            where d.shop_id = $1 and d.id = any($2::uuid[]) and p.shop_id = $1 and p.id = d.payload_id`,
          [shopId, ids.filter((_, at) => all[at]?.withoutBody)],
        );
      });
      return ids;
    },
    /** The ids of a subscription's waiting deliveries, oldest first. */
    async queued(shopId: bigint, subscriptionId: bigint): Promise<string[]> {
      const { rows } = await pool.query<{ id: string }>(
        'select id from queue where shop_id = $1 and subscription_id = $2 order by id',
        [shopId, subscriptionId],
      );
      return rows.map(({ id }) => id);
    },
    /** Marks all waiting deliveries of a subscription as delivered. */
    async deliver(shopId: bigint, subscriptionId: bigint): Promise<number> {
      const { rowCount } = await pool.query(
        `with gone as (delete from queue where shop_id = $1 and subscription_id = $2 returning id)
         update deliveries d set ended = 'delivered', finished_at = now()
           from gone where d.shop_id = $1 and d.id = gone.id`,
        [shopId, subscriptionId],
      );
      return rowCount ?? 0;
    },
    stop: () => db.drop(),
  };
}

export type Log = Awaited<ReturnType<typeof createLog>>;

function eventOf(shopId: bigint, o: Partial<NewDelivery>): Event {
  const sample = sampleEvent(o.trigger ?? 'return.closed', shopId);
  const at = o.at ?? new Date();
  return {
    ...sample,
    eventId: eventIdAt(at),
    occurredAt: timestampFromDate(at),
    ...(o.returnId !== undefined && { returnId: o.returnId }),
  };
}
