-- Who did what, from where, to which object. Append only: the process may add rows, nothing else.

create table audit_log (
  shop_id    bigint not null references shops (id),
  id         bigint generated always as identity (maxvalue 9007199254740991),
  at         timestamptz not null default now(),
  actor_kind text not null constraint audit_log_actor_kind_known
             check (actor_kind in ('user', 'api_key', 'partner_app', 'service', 'system')),
  actor_id   text not null constraint audit_log_actor_id_length check (char_length(actor_id) between 1 and 200),
  actor_name text not null constraint audit_log_actor_name_length check (char_length(actor_name) <= 200),
  source     text constraint audit_log_source_length check (char_length(source) between 1 and 200),
  action     text not null constraint audit_log_action_length check (char_length(action) between 1 and 100),
  subject    text not null constraint audit_log_subject_length check (char_length(subject) <= 500),
  detail     jsonb not null default '{}'::jsonb,
  primary key (shop_id, id)
);
create index audit_log_at on audit_log (at);

do $$
begin
  execute format('revoke update, delete, truncate on audit_log from %I', 'rms_' || current_schema());
end
$$;

-- The retention job's only way to delete, and only what is older than 13 months.
create function purge_audit_log() returns bigint
language plpgsql security definer set search_path from current
as $$
declare
  purged bigint;
begin
  delete from audit_log where at < now() - interval '13 months';
  get diagnostics purged = row_count;
  return purged;
end
$$;
revoke all on function purge_audit_log() from public;
do $$
begin
  execute format('grant execute on function purge_audit_log() to %I', 'rms_' || current_schema());
end
$$;
