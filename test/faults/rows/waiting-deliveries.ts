import type pg from 'pg';

/** The shop of the waiting deliveries. No trial uses it. */
const SHOP_ID = 999_999;
const COUNT = 1_000;

/**
 * Adds endpoints with one delivery each that waits until tomorrow, as in any real system. Without them every index has a
 * single page. With a few hundred rows or more it has a second level, and each look-up reads one page more. This would
 * count as growth.
 */
export async function addWaitingDeliveries(admin: pg.Client): Promise<void> {
  await admin.query(ADD_SUBSCRIPTIONS, [SHOP_ID, COUNT]);
  await admin.query(ADD_DELIVERIES, [SHOP_ID]);
}

/** Removes them. The log of their deliveries stays. */
export async function removeWaitingDeliveries(admin: pg.Client): Promise<void> {
  for (const table of ['queue', 'subscription_queues', 'secrets', 'subscriptions', 'endpoints']) {
    await admin.query(`delete from webhooks.${table} where shop_id = $1`, [SHOP_ID]);
  }
}

const ADD_SUBSCRIPTIONS = `
with addresses as (
  insert into webhooks.endpoints (shop_id, url, url_sha256)
  select $1, 'http://127.0.0.1:1/' || n, sha256(n::text::bytea) from generate_series(1, $2::int) as n
  returning shop_id, id
), subscribed as (
  insert into webhooks.subscriptions (shop_id, topic, trigger, endpoint_id, status)
  select shop_id, 'return', 'return.created', id, 'active' from addresses
  returning shop_id, id, endpoint_id
), signing as (
  insert into webhooks.secrets (shop_id, subscription_id, key_id, sealed)
  select shop_id, id, 'none', 'none' from subscribed
)
insert into webhooks.subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open, ready_at)
select shop_id, id, endpoint_id, 'return', 'return.created', endpoint_id % 32, true, now() + interval '1 day'
  from subscribed`;

const ADD_DELIVERIES = `
with given as materialized (
  select shop_id, subscription_id,
         (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0')
           || '8' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid as id
    from webhooks.subscription_queues where shop_id = $1
), bodies as (
  insert into webhooks.payloads (shop_id, id, event_id, trigger, topic, api_version, body)
  select shop_id, id, id, 'return.created', 'return', '2026-10', '{}' from given
), logged as (
  insert into webhooks.deliveries (shop_id, id, subscription_id, payload_id, trigger, topic)
  select shop_id, id, subscription_id, id, 'return.created', 'return' from given
)
insert into webhooks.queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at)
select shop_id, subscription_id, id, id, 2, true, now() + interval '1 day', now() from given`;
