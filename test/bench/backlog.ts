import type pg from 'pg';

/** Size of a body, as of a small return. Bytes. */
const BODY_BYTES = 1_000;
/** Rows per statement, because larger statements take too long. */
const PART = 50_000;

/**
 * Inserts due deliveries into the queue of the webhooks service, alternating over the subscriptions of the shops. It
 * writes the rows of the fan-out: payload, delivery, queue, and the subscription's queue as due.
 */
export async function addBacklog(
  admin: pg.Client,
  shops: readonly bigint[],
  count: number,
): Promise<void> {
  for (let left = count; left > 0; left -= PART) {
    await admin.query(ADD, [shops, Math.min(left, PART), BODY_BYTES]);
  }
}

/** Deletes all waiting deliveries. The service must not run. */
export async function dropBacklog(admin: pg.Client): Promise<void> {
  await admin.query('truncate webhooks.queue');
  await admin.query(
    'update webhooks.subscription_queues set ready_at = null where ready_at is not null',
  );
}

const ADD = `
with target as (
  select row_number() over (order by shop_id) - 1 as nth, count(*) over () as queues, *
  from webhooks.subscription_queues where shop_id = any ($1::bigint[])
), given as materialized (
  select l.*, r.id, r.event_id
  from generate_series(1, $2::int) as n
  join target l on l.nth = n % l.queues
  cross join lateral (
    select (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
             || '8' || substr(md5(n::text || random()), 1, 3) || '8' || substr(md5(n::text || random()), 1, 15))::uuid as id,
           gen_random_uuid() as event_id
  ) r
), woken as (
  update webhooks.subscription_queues l set ready_at = now()
  from (select distinct shop_id, subscription_id from given) g
  where l.shop_id = g.shop_id and l.subscription_id = g.subscription_id
), bodies as (
  insert into webhooks.payloads (shop_id, id, event_id, trigger, topic, api_version, return_id, revision, body)
  select shop_id, id, event_id, trigger, topic, '2026-10', 1, 1, convert_to('{"id":1,"x":"' || repeat('x', $3) || '"}', 'UTF8')
  from given
), logged as (
  insert into webhooks.deliveries (shop_id, id, subscription_id, payload_id, trigger, topic)
  select shop_id, id, subscription_id, id, trigger, topic from given
), queued as (
  insert into webhooks.queue (shop_id, subscription_id, id, payload_id, bytes, next_attempt_at, queued_at)
  select shop_id, subscription_id, id, id, $3, now(), now() from given
)
select pg_notify('webhooks_due', '')`;
