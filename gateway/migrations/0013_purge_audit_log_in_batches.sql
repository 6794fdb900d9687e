-- Removes entries past 13 months, oldest first and at most so many, so that no statement is without bounds.
-- The function without a parameter stays for the release before this one.

create function purge_audit_log(most integer) returns bigint
language plpgsql security definer set search_path from current
as $$
declare
  purged bigint;
begin
  delete from audit_log where (shop_id, id) in (
    select shop_id, id from audit_log where at < now() - interval '13 months'
     order by at limit most for update skip locked);
  get diagnostics purged = row_count;
  return purged;
end
$$;
revoke all on function purge_audit_log(integer) from public;
do $$
begin
  execute format('grant execute on function purge_audit_log(integer) to %I', 'rms_' || current_schema());
end
$$;
