-- fits: 1.0.0
-- Which events were handled, so that a repeated one changes nothing. A partition per day on which
-- the event occurred: an event has the same day whenever it comes, so the key below is unique.
create table consumed_events (
  shop_id     bigint not null,
  event_id    uuid not null,
  consumer    text not null,
  day         date not null,
  consumed_at timestamptz not null default now(),
  primary key (shop_id, event_id, consumer, day)
) partition by range (day);

-- An insert never fails because its day has no partition.
create table consumed_events_default partition of consumed_events default;

-- Records that could not be handled, with all that a replay needs. Another record may come at the position of a stored
-- one, because brokers that lost their data count from 0 again. The hash says whether it is the same record.
create table poison_records (
  id          bigint generated always as identity (maxvalue 999999999) primary key,
  consumer    text not null,
  topic       text not null,
  position    text not null,
  key         text not null,
  value       bytea not null,
  sha256      bytea not null generated always as (sha256(value)) stored,
  headers     jsonb not null,
  reason      text not null,
  attempts    integer not null check (attempts > 0),
  parked_at   timestamptz not null default now(),
  -- When a replay first removed the record's event from the handled events. From then on these say whether the event is
  -- still to be handled, and no replay removes it again.
  released_at timestamptz,
  constraint poison_records_once unique (consumer, topic, position, sha256)
);

-- How far the events that a service has published were compared with those that a listener has handled.
create table event_sweeps (
  consumer text not null check (char_length(consumer) between 1 and 100),
  source   text not null check (char_length(source) between 1 and 100),
  -- As the source returned it; empty before the first page.
  cursor   text not null default '',
  -- One process at a time sweeps, and not before this time.
  next_at  timestamptz not null,
  primary key (consumer, source)
);

-- Events that were published and that the listener did not get: each is published again until it is handled.
create table missing_events (
  consumer        text not null,
  source          text not null,
  -- In the `events` of the source.
  position        bigint not null,
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  event_id        uuid not null,
  day             date not null,
  found_at        timestamptz not null default clock_timestamp(),
  published_again integer not null default 0,
  next_at         timestamptz not null default clock_timestamp(),
  primary key (consumer, source, position)
);

-- For the two functions below. Each try ends long before PostgreSQL would report a deadlock to a session that waits for
-- it (after 1 s). All sessions continue until the next of a few tries.
create function lock_consumed_events(tables text) returns void
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
  raise exception 'the tables of the handled events are in use' using errcode = 'lock_not_available';
end
$$;

-- The service's role owns nothing, so partitions are made and dropped on its behalf.
create function create_consumed_partitions(days_ahead integer) returns integer
language plpgsql security definer set search_path from current set lock_timeout = '500ms'
as $$
declare
  -- Yesterday's events still come after midnight.
  first_day date := (now() at time zone 'utc')::date - 1;
  the_day   date;
  partition text;
  missing   date[] := '{}';
begin
  perform pg_advisory_xact_lock(hashtext(current_schema() || '.consumed_events'));
  for the_day in select first_day + n from generate_series(0, days_ahead + 1) as n loop
    partition := 'consumed_events_' || to_char(the_day, 'YYYYMMDD');
    -- Rows that went to the default partition stay there; the day cannot be split.
    continue when to_regclass(partition) is not null
      or exists (select from consumed_events_default where day = the_day);
    -- `partition of` would lock everybody out while it makes the table and its indexes.
    execute format('create table %I (like consumed_events including all)', partition);
    missing := missing || the_day;
  end loop;
  if cardinality(missing) = 0 then
    return 0;
  end if;
  -- Attaching locks it anyway. Writers of the days that are there go on.
  perform lock_consumed_events('consumed_events_default');
  foreach the_day in array missing loop
    partition := 'consumed_events_' || to_char(the_day, 'YYYYMMDD');
    execute format('alter table consumed_events attach partition %I for values from (%L) to (%L)',
      partition, the_day, the_day + 1);
    execute format('revoke all on %I from %I', partition, 'rms_' || current_schema());
  end loop;
  return cardinality(missing);
end
$$;

-- Drops whole days in which nothing was handled lately: of events that came late, too, each is
-- known for that long after it was handled.
create function drop_consumed_partitions(retention_days integer) returns integer
language plpgsql security definer set search_path from current set lock_timeout = '500ms'
as $$
declare
  last_day  date := (now() at time zone 'utc')::date - retention_days;
  last_time timestamptz := now() - retention_days * interval '1 day';
  partition text;
  is_needed boolean;
  past      text[] := '{}';
  dropped   integer := 0;
begin
  if retention_days < 1 then
    raise exception 'retention must be at least one day';
  end if;
  perform pg_advisory_xact_lock(hashtext(current_schema() || '.consumed_events'));
  for partition in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'consumed_events'::regclass and c.relname ~ '^consumed_events_\d{8}$'
    order by c.relname
  loop
    continue when to_date(right(partition, 8), 'YYYYMMDD') >= last_day;
    execute format('select exists (select from %I where consumed_at >= $1)', partition)
      into is_needed using last_time;
    if not is_needed then
      past := past || partition;
    end if;
  end loop;
  delete from consumed_events_default where day < last_day and consumed_at < last_time;
  if cardinality(past) = 0 then
    return 0;
  end if;
  -- Dropping a part locks the whole anyway, and everybody begins with that.
  perform lock_consumed_events('only consumed_events');
  foreach partition in array past loop
    -- An event of that day may have come before the lock.
    execute format('select exists (select from %I where consumed_at >= $1)', partition)
      into is_needed using last_time;
    continue when is_needed;
    execute format('drop table %I', partition);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;

revoke all on function lock_consumed_events(text), create_consumed_partitions(integer), drop_consumed_partitions(integer) from public;

do $$
declare
  process text := 'rms_' || current_schema();
begin
  execute format('revoke all on consumed_events_default from %I', process);
  execute format('revoke update on consumed_events from %I', process);
  execute format('grant execute on function create_consumed_partitions(integer), drop_consumed_partitions(integer) to %I', process);
end
$$;

select create_consumed_partitions(3);
