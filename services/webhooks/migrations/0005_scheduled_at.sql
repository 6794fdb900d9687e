-- When next_attempt_at was set, by the retry clock; null for a delivery that does not wait for a retry. The
-- difference is how long it waits. A time in the future shows that the database's clock was set back since.
alter table queue add column scheduled_at timestamptz;
create index queue_scheduled on queue (scheduled_at) where scheduled_at is not null;

-- As before, but a fresh delivery is due even if its time lies in the future: then the database's clock was set back.
create or replace function unload_queues(shop_ids bigint[], subscription_ids bigint[], endpoint_ids bigint[], held timestamptz[])
returns table (shop bigint, subscription bigint, ready timestamptz)
language plpgsql
as $$
declare
  shops bigint[];
  subscriptions bigint[];
begin
  select array_agg(mine.shop_id), array_agg(mine.subscription_id) into shops, subscriptions
    from (
      select s.shop_id, s.subscription_id
        from subscription_queues s join unnest(shop_ids, subscription_ids) as g (shop_id, subscription_id)
          on g.shop_id = s.shop_id and g.subscription_id = s.subscription_id
       order by s.shop_id, s.subscription_id for no key update of s skip locked) as mine;
  return query
    update subscription_queues s
       set ready_at = case when first_due.at is null then null
                           when g.held_until is null then first_due.at
                           else greatest(first_due.at, least(g.held_until, oldest.at)) end
      from unnest(shop_ids, subscription_ids, endpoint_ids, held) as g (shop_id, subscription_id, endpoint_id, held_until)
      join unnest(shops, subscriptions) as mine (shop_id, subscription_id)
        on mine.shop_id = g.shop_id and mine.subscription_id = g.subscription_id
     cross join lateral (
       select least(
         (select least(q.next_attempt_at, now()) from queue q
           where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id and not q.is_retry
           order by q.next_attempt_at limit 1),
         (select min(q.next_attempt_at) from queue q
           where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id and q.is_retry)) as at
     ) first_due
     cross join lateral (
       select (select case when q.is_retry then q.next_attempt_at else least(q.next_attempt_at, now()) end from queue q
                where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id
                order by q.id limit 1) as at
     ) oldest
     where s.shop_id = g.shop_id and s.subscription_id = g.subscription_id and s.endpoint_id = g.endpoint_id
       and s.is_open and s.expire_before is null
    returning s.shop_id, s.subscription_id, s.ready_at;
end
$$;
