-- fits: 1.0.0
-- Every event, as published, for as long as it may be replayed. Insert-only, a partition per day.
create sequence event_positions;

create table events (
  shop_id     bigint not null check (shop_id between 1 and 9007199254740991),
  day         date not null,
  -- The order within one key is the order of commits, because a key changes under the lock of its own row.
  position    bigint not null,
  event_id    uuid not null,
  trigger     text not null check (char_length(trigger) between 1 and 100),
  key         text not null check (char_length(key) between 1 and 200),
  traceparent text not null,
  occurred_at timestamptz not null,
  created_at  timestamptz not null default now(),
  value       bytea not null,
  -- A relay finds its events by shard and position.
  shard       smallint not null check (shard between 0 and 7),
  -- The transaction. It says which events have committed after events at later positions.
  written_by  xid8 not null,
  primary key (shop_id, day, position)
) partition by range (day);

-- A replay reads a time range in order.
create index events_by_position on events (position);
create index events_by_shard on events (shard, position);

-- An insert never fails because its day has no partition.
create table events_default partition of events default;

-- How far each shard is published: every event of the shard at or below `position`, except
--  - those that wait because the bus refused them, at the positions `waiting`;
--  - those of the transactions `open`, which were in progress when the shard was last read. A transaction has no
--    position at or below its `open_after`, or those are published.
-- Each change counts `version` up, so that a relay whose lease was taken changes nothing.
create table outbox_progress (
  shard      smallint primary key check (shard between 0 and 7),
  version    bigint not null default 0,
  position   bigint not null,
  open       xid8[] not null default '{}',
  open_after bigint[] not null default '{}' check (cardinality(open) = cardinality(open_after)),
  waiting    bigint[] not null default '{}'
) with (fillfactor = 50);

insert into outbox_progress (shard, position) select shard, 0 from generate_series(0, 7) as shard;

-- The events that are not published yet.
create view outbox as
select e.shop_id, e.day, e.position, e.shard, e.created_at
  from outbox_progress p
 cross join lateral (
   select array_agg(o.xid) as xids, array_agg(o.after) as afters, min(o.after) as after
     from unnest(p.open, p.open_after) as o (xid, after)
    where o.xid <> all (array(select pg_snapshot_xip(pg_current_snapshot())))
 ) ended
 cross join lateral (
   select * from events waiting
    where waiting.shard = p.shard and waiting.position = any (p.waiting)
   union all
   select * from events later
    where later.shard = p.shard and later.position > least(p.position, ended.after)
      and (later.position > p.position or exists (
        select from unnest(ended.xids, ended.afters) as o (xid, after)
         where o.xid = later.written_by and later.position > o.after))
 ) e;

-- For the two functions below. Each try ends long before PostgreSQL would report a deadlock to a session that waits for
-- it (after 1 s). All sessions continue until the next of a few tries.
create function lock_events(tables text) returns void
language plpgsql set lock_timeout = '100ms'
as $$
begin
  for nth in 1..10 loop
    begin
      execute format('lock table %s in access exclusive mode', tables);
      return;
    exception when lock_not_available then
      perform pg_sleep(0.1);
    end;
  end loop;
  raise exception 'the tables of the events are in use' using errcode = 'lock_not_available';
end
$$;

-- The service's role owns nothing, so partitions are made and dropped on its behalf.
create function create_event_partitions(days_ahead integer) returns integer
language plpgsql security definer set search_path from current set lock_timeout = '500ms'
as $$
declare
  first_day date := (now() at time zone 'utc')::date;
  the_day   date;
  partition text;
  missing   date[] := '{}';
begin
  perform pg_advisory_xact_lock(hashtext(current_schema() || '.events'));
  for the_day in select first_day + n from generate_series(0, days_ahead) as n loop
    partition := 'events_' || to_char(the_day, 'YYYYMMDD');
    -- Rows that went to the default partition stay there; the day cannot be split.
    continue when to_regclass(partition) is not null
      or exists (select from events_default where day = the_day);
    -- `partition of` would lock everybody out while it makes the table and its indexes.
    execute format('create table %I (like events including all)', partition);
    missing := missing || the_day;
  end loop;
  if cardinality(missing) = 0 then
    return 0;
  end if;
  -- Attaching locks it anyway. Writers of the days that are there go on.
  perform lock_events('events_default');
  foreach the_day in array missing loop
    partition := 'events_' || to_char(the_day, 'YYYYMMDD');
    execute format('alter table events attach partition %I for values from (%L) to (%L)',
      partition, the_day, the_day + 1);
    execute format('revoke all on %I from %I', partition, 'rms_' || current_schema());
  end loop;
  return cardinality(missing);
end
$$;

-- Drops whole days older than the retention, never one with an event that is not published.
create function drop_event_partitions(retention_days integer) returns integer
language plpgsql security definer set search_path from current set lock_timeout = '500ms'
as $$
declare
  last_day  date := (now() at time zone 'utc')::date - retention_days;
  partition text;
  the_day   date;
  past      text[] := '{}';
  dropped   integer := 0;
begin
  if retention_days < 1 then
    raise exception 'retention must be at least one day';
  end if;
  perform pg_advisory_xact_lock(hashtext(current_schema() || '.events'));
  for partition in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'events'::regclass and c.relname ~ '^events_\d{8}$'
    order by c.relname
  loop
    the_day := to_date(right(partition, 8), 'YYYYMMDD');
    continue when the_day >= last_day or exists (select from outbox where day = the_day);
    past := past || partition;
  end loop;
  delete from events_default e
  where e.day < last_day and not exists (select from outbox o where o.day = e.day);
  if cardinality(past) = 0 then
    return 0;
  end if;
  -- Dropping a part locks the whole anyway, and everybody begins with that.
  perform lock_events('only events');
  foreach partition in array past loop
    -- An event of that day may have come before the lock.
    continue when exists (select from outbox where day = to_date(right(partition, 8), 'YYYYMMDD'));
    execute format('drop table %I', partition);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;

revoke all on function lock_events(text), create_event_partitions(integer), drop_event_partitions(integer) from public;

do $$
declare
  process text := 'rms_' || current_schema();
begin
  execute format('revoke update, delete on events, events_default from %I', process);
  execute format('grant execute on function create_event_partitions(integer), drop_event_partitions(integer) to %I', process);
end
$$;

select create_event_partitions(3);
