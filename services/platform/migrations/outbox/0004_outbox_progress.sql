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

-- From here on nobody appends or publishes until the end of the migration.
lock table events, outbox in access exclusive mode;

-- What still has a pointer gets its shard, and is published by it.
update events e set shard = o.shard
  from outbox o
 where o.shop_id = e.shop_id and o.day = e.day and o.position = e.position;

insert into outbox_progress (shard, position)
select shard, coalesce((select min(position) - 1 from outbox), (select max(position) from events), 0)
  from generate_series(0, 7) as shard;

-- The pointers are replaced by a view of what is not published yet.
drop table outbox;

create view outbox as
select e.shop_id, e.day, e.position, e.shard, e.key, length(e.value) as bytes, e.created_at, e.written_by
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

-- For processes of the release before, which append without a shard, and relay by the view. The next release drops
-- the two triggers and the three functions.

-- Kafka's hash of the key, as `murmur2.ts` has it.
create function outbox_shard(key text) returns smallint
language plpgsql immutable
as $$
declare
  m     constant bigint := x'5bd1e995'::bigint;
  mask  constant bigint := x'ffffffff'::bigint;
  bytes constant bytea := convert_to(key, 'UTF8');
  whole constant integer := length(bytes) / 4 * 4;
  h     bigint := x'9747b28c'::bigint # length(bytes);
  k     bigint;
begin
  for at in 0 .. whole - 4 by 4 loop
    k := get_byte(bytes, at) + (get_byte(bytes, at + 1)::bigint << 8)
       + (get_byte(bytes, at + 2)::bigint << 16) + (get_byte(bytes, at + 3)::bigint << 24);
    k := (k * m) & mask;
    k := k # (k >> 24);
    h := ((h * m) & mask) # ((k * m) & mask);
  end loop;
  if length(bytes) > whole then
    for at in whole .. length(bytes) - 1 loop
      h := h # (get_byte(bytes, at)::bigint << (8 * (at - whole)));
    end loop;
    h := (h * m) & mask;
  end if;
  h := h # (h >> 13);
  h := (h * m) & mask;
  h := h # (h >> 15);
  return (h & x'7fffffff'::bigint) % 8;
end
$$;

-- The position is drawn again, after the transaction has its number: see `append.ts`.
create function complete_event() returns trigger
language plpgsql set search_path from current
as $$
begin
  new.written_by := pg_current_xact_id();
  new.position := nextval('event_positions');
  new.shard := outbox_shard(new.key);
  return new;
end
$$;

create trigger complete_event before insert on events
for each row when (new.shard is null) execute function complete_event();

-- A pointer says nothing more. One that is deleted says that its event is published: without a shard nobody finds it.
create function forget_pointer() returns trigger
language plpgsql security definer set search_path from current
as $$
begin
  if tg_op = 'INSERT' then
    return new;
  end if;
  update events set shard = null
   where shop_id = old.shop_id and day = old.day and position = old.position;
  return old;
end
$$;

create trigger forget_pointer instead of insert or delete on outbox
for each row execute function forget_pointer();

revoke all on function forget_pointer() from public;
