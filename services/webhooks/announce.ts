import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { type Actor, ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  DeliveriesExhaustedSchema,
  SecretRevealedSchema,
  SubscriptionDisabled_Reason,
  SubscriptionDisabledSchema,
  SubscriptionFailingSchema,
  type WebhookSubscription,
  WebhookSubscriptionSchema,
} from '../../proto/gen/rms/events/v1/events_pb.ts';
import { errorForPartners } from '../platform/outbound/failure.ts';
import { appendEvents, type NewEvent } from '../platform/outbox/append.ts';
import { inTransaction, type Queryable } from '../platform/postgres/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../platform/postgres/sql.ts';
import { systemActor } from '../platform/security/identity.ts';
import { type QueueRef, queueKeyOf, queueRows } from './delivery/queue/queue-ref.ts';
import { deactivatesAtMs, type Notice } from './delivery/results/deactivate.ts';

/**
 * For each subscription, the message that its events contain. The key is that of its queue. Deleted subscriptions are
 * missing.
 */
type Descriptions = ReadonlyMap<string, WebhookSubscription>;

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
async function describeSubscriptions(
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
function keyOfSubscription(queue: QueueRef): Pick<NewEvent, 'shopId' | 'key'> {
  return { shopId: queue.shopId, key: queueKeyOf(queue) };
}

/** The actor of what the service does on its own, without a call. */
const WEBHOOKS = create(ActorSchema, systemActor('webhooks'));

/**
 * Appends `subscription.failing` and `subscription.disabled` in the transaction that counts the failures. The caller
 * must have locked the subscriptions. Without notices, this runs no statement.
 */
export async function announceFailures(tx: Queryable, notices: readonly Notice[]): Promise<void> {
  if (notices.length === 0) return;
  const descriptions = await describeSubscriptions(tx, notices);
  await appendEvents(
    tx,
    notices.flatMap((notice) => {
      const subscription = descriptions.get(queueKeyOf(notice));
      return subscription ? [eventOf(notice, subscription)] : [];
    }),
  );
}

function eventOf(notice: Notice, subscription: WebhookSubscription): NewEvent {
  const { failures, failingSinceMs } = notice;
  const lastError = errorForPartners(notice.lastError);
  const common = { ...keyOfSubscription(notice), actor: WEBHOOKS };
  const value = {
    subscription,
    failures,
    lastError,
    ...(failingSinceMs !== null && { failingSince: timestampFromDate(new Date(failingSinceMs)) }),
  };
  if (notice.kind === 'deactivated') {
    const reason = REASONS[notice.cause];
    const deactivated = create(SubscriptionDisabledSchema, { ...value, reason });
    const detail = { case: 'subscriptionDisabled', value: deactivated } as const;
    return { ...common, trigger: 'subscription.disabled', detail };
  }
  const failing = create(SubscriptionFailingSchema, {
    ...value,
    percent: notice.percent,
    ...(failingSinceMs !== null && {
      disablesAt: timestampFromDate(new Date(deactivatesAtMs(failingSinceMs))),
    }),
  });
  const detail = { case: 'subscriptionFailing', value: failing } as const;
  return { ...common, trigger: 'subscription.failing', detail };
}

const REASONS = {
  gone: SubscriptionDisabled_Reason.GONE,
  failures: SubscriptionDisabled_Reason.FAILURES,
} as const;

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
