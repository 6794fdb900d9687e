import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { DeliveriesExhaustedSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { errorForPartners } from '../../platform/outbound/failure.ts';
import { appendEvents } from '../../platform/outbox/append.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../../platform/sql.ts';
import { type QueueRef, queueKeyOf, queueRows } from '../delivery/queue/queue-ref.ts';
import { describeSubscriptions, keyOfSubscription } from './describe.ts';
import { WEBHOOKS } from './failures.ts';

/** Exhausted deliveries of one subscription. */
export interface Exhausted extends QueueRef {
  readonly deliveries: number;
  /** Error of the last attempt of the newest of these deliveries. */
  readonly lastError: string;
}

/** Maximum number of events that one transaction publishes for counts that are due. */
const BATCH = 100;
const MAX_ERROR = 1_000;

const exhaustedRows = rowsOf<Exhausted>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
  deliveries: ['integer', ({ deliveries }) => deliveries],
  last_error: ['text', ({ lastError }) => [...lastError].slice(0, MAX_ERROR).join('')],
});

/** SQL condition: the subscription may have another event, because its last one is at least an hour old. */
const isDue = sql`published_at is null or published_at <= now() - interval '1 hour'`;

const COUNTED = sql`shop_id as "shopId", subscription_id as "subscriptionId", deliveries, last_error as "lastError"`;

const countStatement = (rows: readonly Exhausted[]): Sql => sql`
with counted as (
  insert into exhausted_deliveries as e (shop_id, subscription_id, deliveries, last_error)
  select * from ${exhaustedRows('g', rows)} order by g.shop_id, g.subscription_id
  on conflict (shop_id, subscription_id) do update
    set deliveries = e.deliveries + excluded.deliveries, last_error = excluded.last_error
  returning *
)
select ${COUNTED} from counted where ${isDue}`;

/**
 * Counts exhausted deliveries in the transaction that records them. Publishes the count of each subscription that had
 * no `delivery.exhausted` in the last hour. So a million exhausted deliveries cause only a few events. The caller must
 * have locked the subscriptions. Without an exhausted delivery, this runs no statement.
 */
export async function countExhausted(tx: Queryable, rows: readonly Exhausted[]): Promise<void> {
  if (rows.length === 0) return;
  const { rows: due } = await tx.query<Exhausted>(named('count-exhausted', countStatement(rows)));
  await publish(tx, due);
}

/**
 * Publishes counts of subscriptions whose last event is an hour old, even if no delivery was exhausted since then.
 * Several processes may run this. Returns whether there may be more counts.
 */
export function publishDueCounts(pool: pg.Pool): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const { rows: due } = await tx.query<Exhausted>(
      named(
        'due-exhausted',
        sql`select ${COUNTED} from exhausted_deliveries
             where deliveries > 0 and (${isDue})
             order by shop_id, subscription_id limit ${BATCH} for update skip locked`,
      ),
    );
    await publish(tx, due);
    return due.length === BATCH;
  });
}

async function publish(tx: Queryable, due: readonly Exhausted[]): Promise<void> {
  if (due.length === 0) return;
  const descriptions = await describeSubscriptions(tx, due);
  await tx.query(
    named(
      'reset-exhausted',
      sql`update exhausted_deliveries e set deliveries = 0, published_at = now()
            from ${queueRows('g', due)}
           where e.shop_id = g.shop_id and e.subscription_id = g.subscription_id`,
    ),
  );
  await appendEvents(
    tx,
    due.flatMap((one) => {
      const subscription = descriptions.get(queueKeyOf(one));
      if (!subscription) return [];
      const { deliveries } = one;
      const lastError = errorForPartners(one.lastError);
      const value = create(DeliveriesExhaustedSchema, { subscription, deliveries, lastError });
      const detail = { case: 'deliveriesExhausted', value } as const;
      const common = { ...keyOfSubscription(one), actor: WEBHOOKS };
      return [{ ...common, trigger: 'delivery.exhausted', detail }];
    }),
  );
}
