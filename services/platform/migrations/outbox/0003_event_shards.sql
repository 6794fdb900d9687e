-- The relay finds events by shard and position; `written_by` tells it which of them committed late.
-- Rows that are there stay without a shard, and need none: they were published by their pointers.
alter table events add column shard smallint, add column written_by xid8;

-- Nothing is built for days that have rows: that would stop their writers. Until those days are dropped they are
-- read by position alone. Empty days and those made later have the index.
create index events_by_shard on only events (shard, position);

do $$
declare
  part    regclass;
  has_row boolean;
begin
  for part in select inhrelid::regclass from pg_inherits where inhparent = 'events'::regclass loop
    execute format('select exists (select from %s)', part) into has_row;
    continue when has_row;
    execute format('create index %I on %s (shard, position)', part::text || '_by_shard', part);
    execute format('alter index events_by_shard attach partition %I', part::text || '_by_shard');
  end loop;
end
$$;
