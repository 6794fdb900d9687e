-- fits: 1.0.0
-- Calls that may change something and have not ended. Each becomes one entry of the audit log when it ends, or after a
-- while when its process died. The same constraints as the log, so that nothing is changed that it could not record.
create table open_calls (
  like audit_log including defaults including constraints,
  call  uuid primary key,
  -- Ended, and waits to become one entry together with equal calls of a shop that writes more than its log keeps apart.
  ended boolean not null default false,
  foreign key (shop_id) references shops (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
alter table open_calls drop column id;
create index open_calls_at on open_calls (at);

-- How much calls added to a shop's log on a day (UTC).
create table audit_days (
  shop_id bigint not null references shops (id),
  day     date not null,
  bytes   bigint not null,
  primary key (shop_id, day)
);
create index audit_days_day on audit_days (day);
