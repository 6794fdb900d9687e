-- Every event, as published, for as long as it may be replayed. Insert-only, a partition per day.
create sequence event_positions;

create table events (
  shop_id     bigint not null check (shop_id between 1 and 9007199254740991),
  day         date not null,
  position    bigint not null,
  event_id    uuid not null,
  trigger     text not null check (char_length(trigger) between 1 and 100),
  key         text not null check (char_length(key) between 1 and 200),
  traceparent text not null,
  occurred_at timestamptz not null,
  created_at  timestamptz not null default now(),
  value       bytea not null,
  primary key (shop_id, day, position)
) partition by range (day);

-- A replay reads a time range in order.
create index events_by_position on events (position);

-- An insert never fails for want of a partition.
create table events_default partition of events default;

-- What is still to be published: a small row per event, deleted once the bus has it.
-- Position order within one key is commit order, because a key changes under its own row's lock.
create table outbox (
  shop_id    bigint not null,
  day        date not null,
  position   bigint not null,
  shard      smallint not null check (shard between 0 and 7),
  key        text not null,
  bytes      integer not null,
  created_at timestamptz not null default now(),
  primary key (shop_id, day, position)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create index outbox_by_shard on outbox (shard, position);
create index outbox_by_day on outbox (day);

-- For the two functions below. It gives up long before anybody who waits for it would be told of a
-- deadlock (after 1 s), and all go on until the next of a few tries.
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

-- Drops whole days older than the retention, never one that a pointer still refers to.
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
