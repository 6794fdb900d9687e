-- fits: 1.0.0
-- The timeline of PostgreSQL on which the schema was written last. A standby that is promoted, and a backup that is
-- restored to a point in time, begin another timeline. They may lack the last commits, whose ids and revisions are known
-- outside of the database.
create table server_timeline (
  is_only_row    boolean primary key default true check (is_only_row),
  -- 0: the server does not tell it.
  timeline       bigint not null,
  -- From the next change on, each object has at least this revision.
  revision_floor bigint not null default 0,
  stepped_at     timestamptz
);

-- Rejects a standby, so that no connection outlives its promotion.
create function current_timeline() returns bigint
language plpgsql
as $$
begin
  if pg_is_in_recovery() then
    raise exception 'the server is a standby' using errcode = 'read_only_sql_transaction';
  end if;
  -- `pg_control_checkpoint()` has the timeline before the promotion until the first checkpoint after the promotion.
  return ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
exception when feature_not_supported or insufficient_privilege or undefined_function then
  -- Some managed servers have no WAL files. They lose no commits in a failover.
  return 0;
end
$$;

insert into server_timeline (timeline) values (current_timeline());

-- Each connection calls this function before its first statement. On another timeline than before, the sequences of the
-- schema leave a gap, so that no id, position or token of a lost commit is given again. The gap is a million, and never
-- more than a thousandth of what the sequence has left. A later connection waits until the step is committed.
create function step_to_timeline() returns void
language plpgsql security definer set search_path from current
as $$
declare
  here bigint := current_timeline();
  drawn record;
begin
  if exists (select from server_timeline where timeline = here) then
    return;
  end if;
  perform from server_timeline for update;
  if exists (select from server_timeline where timeline = here) then
    return;
  end if;
  for drawn in
    select format('%I.%I', schemaname, sequencename)::regclass as sequence, max_value,
           coalesce(last_value, start_value) as at
      from pg_sequences where schemaname = current_schema()
  loop
    perform setval(drawn.sequence, drawn.at + least(1000000, (drawn.max_value - drawn.at) / 1000));
  end loop;
  -- The seconds are larger than any number of changes. They also order two standbys that were promoted one after the
  -- other and do not know each other. The sum fits into 32 bits until 2088.
  update server_timeline
     set timeline = here, stepped_at = clock_timestamp(),
         revision_floor = greatest(revision_floor + 1000000,
           extract(epoch from clock_timestamp() - timestamptz '2020-01-01 00:00:00Z')::bigint);
end
$$;

revoke all on function current_timeline(), step_to_timeline() from public;

do $$
declare
  process text := 'rms_' || current_schema();
begin
  execute format('revoke insert, update, delete on server_timeline from %I', process);
  execute format('grant execute on function step_to_timeline() to %I', process);
end
$$;
