-- What was called a lane is the queue of a subscription.
alter table lanes rename to subscription_queues;
alter table subscription_queues rename constraint lanes_subscription to subscription_queues_subscription;
alter table subscription_queues rename constraint lanes_ready to subscription_queues_ready_check;
alter table subscription_queues rename constraint lanes_endpoint to subscription_queues_endpoint;
alter index lanes_pkey rename to subscription_queues_pkey;
alter index lanes_ready rename to subscription_queues_ready;
alter index lanes_by_endpoint rename to subscription_queues_by_endpoint;
alter index lanes_to_drain rename to subscription_queues_to_end;

-- Processes of the release before read and write it by its former name, through `park_lanes` too.
create view lanes as select * from subscription_queues;

-- Sets when each queue is ready again, and returns that time: when the first of its deliveries is due or,
-- while the circuit of its endpoint is open, not before the next probe, unless the oldest delivery is due
-- earlier. A statement of its own locks the rows first: the second statement sees what was queued until then,
-- and what is queued later sets ready_at itself. A queue that another transaction writes to is skipped, as
-- that may take long.
create function unload_queues(shop_ids bigint[], subscription_ids bigint[], endpoint_ids bigint[], held timestamptz[])
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
         (select min(q.next_attempt_at) from queue q
           where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id and not q.is_retry),
         (select min(q.next_attempt_at) from queue q
           where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id and q.is_retry)) as at
     ) first_due
     cross join lateral (
       select (select q.next_attempt_at from queue q
                where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id
                order by q.id limit 1) as at
     ) oldest
     where s.shop_id = g.shop_id and s.subscription_id = g.subscription_id and s.endpoint_id = g.endpoint_id
       and s.is_open and s.expire_before is null
    returning s.shop_id, s.subscription_id, s.ready_at;
end
$$;
