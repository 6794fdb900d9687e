-- fits: 1.0.0
-- Subscriptions of shops, the deliveries of events to their endpoints, and the log of both.

-- The API version of the payloads of a shop.
create table payload_versions (
  shop_id    bigint primary key check (shop_id between 1 and 9007199254740991),
  version    text not null check (version ~ '^\d{4}-\d{2}$'),
  updated_at timestamptz not null default now()
);

-- Sandbox shops: each delivery of theirs says so in a header. All other shops are live.
create table sandbox_shops (
  shop_id    bigint primary key check (shop_id between 1 and 9007199254740991),
  created_at timestamptz not null default now()
);

-- One row for each address of a shop, with its health. Only the process that owns its shard writes it. The hash stands
-- for the address, which may be too long for an index.
create table endpoints (
  shop_id    bigint not null check (shop_id between 1 and 9007199254740991),
  id         bigint generated always as identity (maxvalue 9007199254740991),
  url        text not null,
  url_sha256 bytea not null check (octet_length(url_sha256) = 32),
  -- Maximum number of attempts in flight: grown on success, halved on timeouts, 429 and 5xx.
  flight_cap smallint not null default 2 check (flight_cap between 1 and 8),
  -- Failures since the last success, and when they began; both by the retry clock.
  consecutive_failures integer not null default 0 check (consecutive_failures >= 0),
  failing_since timestamptz,
  -- The first deliveries that failed since then: no more than are needed to open the circuit.
  failed_deliveries uuid[] not null default '{}' check (cardinality(failed_deliveries) <= 3),
  -- While the circuit is open only probes are sent, the next one at held_until. By the retry clock.
  circuit_opened_at timestamptz,
  held_until timestamptz,
  created_at timestamptz not null default now(),
  primary key (shop_id, id),
  constraint endpoints_once unique (shop_id, url_sha256),
  constraint endpoints_held check ((circuit_opened_at is null) = (held_until is null))
) with (fillfactor = 80);
create index endpoints_open on endpoints (circuit_opened_at) where circuit_opened_at is not null;

create table subscriptions (
  shop_id         bigint not null,
  id              bigint generated always as identity (maxvalue 999999999),
  topic           text not null check (char_length(topic) between 1 and 100),
  trigger         text not null check (char_length(trigger) between 1 and 100),
  endpoint_id     bigint not null,
  status          text not null check (status in ('active', 'inactive')),
  inactive_reason text not null default '',
  -- By the retry clock. From then on waiting deliveries are held.
  inactive_since  timestamptz,
  -- What the subscription is for, in the words of the shop; empty for none.
  description     text not null default '' check (char_length(description) <= 200),
  -- Failures since the last success, when they began (by the retry clock), and the share of the time until the
  -- subscription becomes inactive at which the last warning was sent.
  failures        integer not null default 0 check (failures >= 0),
  failing_since   timestamptz,
  warned_percent  smallint not null default 0 check (warned_percent between 0 and 100),
  -- When the address last changed, or a user activated the subscription: older attempts say nothing about its health.
  -- Null for a subscription without such a change.
  health_since    timestamptz,
  -- Who last saw a signing secret, and when.
  secret_shown_at   timestamptz,
  secret_shown_kind text check (char_length(secret_shown_kind) <= 20),
  secret_shown_id   text check (char_length(secret_shown_id) <= 200),
  secret_shown_name text check (char_length(secret_shown_name) <= 200),
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  -- Kept for the log of its deliveries until that is dropped.
  deleted_at      timestamptz,
  primary key (shop_id, id),
  constraint subscriptions_endpoint foreign key (shop_id, endpoint_id) references endpoints (shop_id, id),
  constraint subscriptions_inactive check ((status = 'inactive') = (inactive_since is not null))
) with (fillfactor = 80);
create index subscriptions_by_endpoint on subscriptions (shop_id, endpoint_id);
create index subscriptions_inactive_since on subscriptions (inactive_since)
  where status = 'inactive' and deleted_at is null;
create index subscriptions_deleted on subscriptions (deleted_at) where deleted_at is not null;

-- The queue of each subscription: what fan-out and sending need of it, in a row small enough to be locked for each batch.
-- Holding, releasing, moving and deleting a backlog of any length is one update here.
create table subscription_queues (
  shop_id         bigint not null,
  subscription_id bigint not null,
  endpoint_id     bigint not null,
  topic           text not null,
  trigger         text not null,
  -- The process that owns the shard sends the deliveries of its queues. All queues of an endpoint have the same shard.
  shard           smallint not null check (shard between 0 and 31),
  -- Active and not deleted: gets new deliveries, and waiting ones are sent.
  is_open         boolean not null,
  -- Deleted: its waiting deliveries are dropped, then this row is deleted.
  is_deleted      boolean not null default false,
  -- Opened again after more than 30 days: deliveries that were queued before this (retry clock) expire first.
  expire_before   timestamptz,
  -- When its first delivery is due, by the retry clock; null when nothing waits or nothing may be sent.
  ready_at        timestamptz,
  primary key (shop_id, subscription_id),
  constraint subscription_queues_subscription foreign key (shop_id, subscription_id) references subscriptions (shop_id, id)
    on delete cascade,
  constraint subscription_queues_ready_check check (ready_at is null or (is_open and expire_before is null)),
  constraint subscription_queues_endpoint foreign key (shop_id, endpoint_id) references endpoints (shop_id, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index subscription_queues_ready on subscription_queues (shard, ready_at) where ready_at is not null;
create index subscription_queues_by_endpoint on subscription_queues (shop_id, endpoint_id);
create index subscription_queues_to_end on subscription_queues (shop_id, subscription_id) where is_deleted or expire_before is not null;

-- Signing secrets, encrypted; the newest has no end.
create table secrets (
  shop_id         bigint not null,
  subscription_id bigint not null,
  id              bigint generated always as identity (maxvalue 9007199254740991),
  key_id          text not null check (char_length(key_id) between 1 and 50),
  sealed          bytea not null,
  created_at      timestamptz not null default now(),
  expires_at      timestamptz,
  primary key (shop_id, subscription_id, id),
  constraint secrets_subscription foreign key (shop_id, subscription_id) references subscriptions (shop_id, id)
    on delete cascade
);

-- Deliveries that wait or are sent. A row lives from fan-out to the end of its delivery.
create table queue (
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  subscription_id bigint not null check (subscription_id between 1 and 9007199254740991),
  -- The delivery.
  id              uuid not null,
  payload_id      uuid not null,
  -- Length of the body.
  bytes           integer not null check (bytes >= 0),
  -- Fresh deliveries are sent before retries and replays.
  is_retry        boolean not null default false,
  -- By the retry clock, both.
  next_attempt_at timestamptz not null,
  queued_at       timestamptz not null,
  -- When next_attempt_at was set, by the retry clock; null for a delivery that does not wait for a retry. The difference
  -- is how long it waits. A time in the future shows that the clock of the database was set back since.
  scheduled_at    timestamptz,
  -- All attempts, and those since it was last queued: a replay begins again with 0.
  attempts        integer not null default 0 check (attempts >= 0),
  round_attempts  smallint not null default 0 check (round_attempts >= 0),
  primary key (shop_id, subscription_id, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
create index queue_due on queue (shop_id, subscription_id, is_retry, next_attempt_at, id);
create index queue_scheduled on queue (scheduled_at) where scheduled_at is not null;

-- Sets when each queue is ready again, and returns that time: when the first of its deliveries is due or, while the
-- circuit of its endpoint is open, not before the next probe, unless the oldest delivery is due earlier. A fresh delivery
-- is due even if its time lies in the future: then the clock of the database was set back. A statement of its own locks
-- the rows first: the second statement sees what was queued until then, and what is queued later sets ready_at itself. A
-- queue that another transaction writes to is skipped, as that may take long.
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
         (select least(q.next_attempt_at, now()) from queue q
           where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id and not q.is_retry
           order by q.next_attempt_at limit 1),
         (select min(q.next_attempt_at) from queue q
           where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id and q.is_retry)) as at
     ) first_due
     cross join lateral (
       select (select case when q.is_retry then q.next_attempt_at else least(q.next_attempt_at, now()) end from queue q
                where q.shop_id = g.shop_id and q.subscription_id = g.subscription_id
                order by q.id limit 1) as at
     ) oldest
     where s.shop_id = g.shop_id and s.subscription_id = g.subscription_id and s.endpoint_id = g.endpoint_id
       and s.is_open and s.expire_before is null
    returning s.shop_id, s.subscription_id, s.ready_at;
end
$$;

-- Exhausted deliveries of each subscription that no `delivery.exhausted` event has counted yet. A subscription has at
-- most one event an hour, however many of its deliveries are exhausted.
create table exhausted_deliveries (
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  subscription_id bigint not null,
  deliveries      integer not null check (deliveries >= 0),
  -- Error of the last attempt of the last of them.
  last_error      text not null check (char_length(last_error) <= 1000),
  -- When the last event was published; null before the first.
  published_at    timestamptz,
  primary key (shop_id, subscription_id),
  constraint exhausted_deliveries_subscription foreign key (shop_id, subscription_id)
    references subscriptions (shop_id, id) on delete cascade
);
create index exhausted_deliveries_due on exhausted_deliveries (published_at) where deliveries > 0;

-- The log, in day partitions of the time in the id (the event's), which are dropped together:
-- see services/webhooks/delivery-id.ts. No foreign keys: one transaction writes what belongs together.

-- The bytes sent, once per event, topic and version, however many subscriptions get them.
create table payloads (
  shop_id     bigint not null check (shop_id between 1 and 9007199254740991),
  id          uuid not null,
  event_id    uuid not null,
  trigger     text not null,
  topic       text not null,
  api_version text not null,
  return_id   bigint check (return_id between 1 and 9007199254740991),
  revision    bigint not null default 0,
  traceparent text not null default '',
  -- A test event: each of its attempts says so in a header.
  is_test     boolean not null default false,
  -- Null once its customer was redacted and nothing waits for it.
  body        bytea,
  redacted_at timestamptz,
  created_at  timestamptz not null default now(),
  primary key (shop_id, id)
) partition by range (id);
create index payloads_by_return on payloads (shop_id, return_id) where return_id is not null;

create table deliveries (
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  -- `webhook-id` without its prefix.
  id              uuid not null,
  subscription_id bigint not null check (subscription_id between 1 and 9007199254740991),
  payload_id      uuid not null,
  trigger         text not null,
  topic           text not null,
  is_test         boolean not null default false,
  -- The key of the call that last queued it again: a repeat of that call does not do so.
  replay_key      text check (char_length(replay_key) <= 200),
  -- Null while it is in `queue`. Then the subscription says what it is: waiting, held, or dropped when the subscription
  -- was deleted.
  ended           text check (ended in ('delivered', 'exhausted', 'expired', 'dropped')),
  created_at      timestamptz not null default now(),
  finished_at     timestamptz,
  primary key (shop_id, id),
  constraint deliveries_finished check ((ended is null) = (finished_at is null))
) partition by range (id);
create index deliveries_of_subscription on deliveries (shop_id, subscription_id, id);
-- The test events of each subscription. They are few among all deliveries, so that the index is small.
create index deliveries_tests on deliveries (shop_id, subscription_id, id) where is_test;

-- One row for each request. The parts of its time are null where they did not happen.
create table attempts (
  shop_id          bigint not null check (shop_id between 1 and 9007199254740991),
  delivery_id      uuid not null,
  number           integer not null check (number > 0),
  started_at       timestamptz not null,
  duration_ms      integer not null check (duration_ms >= 0),
  dns_ms           integer,
  connect_ms       integer,
  tls_ms           integer,
  -- From the request sent to the first byte of the response.
  wait_ms          integer,
  read_ms          integer,
  -- 0: no response.
  status           integer not null check (status between 0 and 999),
  error            text not null,
  url              text not null,
  -- JSON, as sent.
  request_headers  text not null,
  -- JSON: a bounded number, without values that may be credentials. Empty without a response.
  response_headers text not null default '' constraint attempts_response_headers check (octet_length(response_headers) <= 2048),
  response_excerpt text not null,
  primary key (shop_id, delivery_id, number)
) partition by range (delivery_id);

-- An insert never fails because its day has no partition.
create table payloads_default partition of payloads default;
create table deliveries_default partition of deliveries default;
create table attempts_default partition of attempts default;

-- Returns whose customer was redacted: an event that arrives late must not bring the data back.
create table redacted_returns (
  shop_id     bigint not null check (shop_id between 1 and 9007199254740991),
  return_id   bigint not null check (return_id between 1 and 9007199254740991),
  redacted_at timestamptz not null default now(),
  primary key (shop_id, return_id)
);

-- The least id of a day: its first millisecond in the first 48 bits.
create function first_id_of(the_day date) returns uuid language sql immutable
return rpad(lpad(to_hex((extract(epoch from the_day) * 1000)::bigint), 12, '0'), 32, '0')::uuid;

-- For the two functions below. Each try ends long before PostgreSQL would report a deadlock to a session that waits for
-- it (after 1 s). All sessions continue until the next of a few tries.
create function lock_log(tables text) returns void
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
  raise exception 'the tables of the log are in use' using errcode = 'lock_not_available';
end
$$;

-- The service's role owns nothing, so partitions are made and dropped on its behalf.
create function create_delivery_days(days_back integer, days_ahead integer) returns integer
language plpgsql security definer set search_path from current set lock_timeout = '500ms'
as $$
declare
  today     date := (now() at time zone 'utc')::date;
  the_day   date;
  parent    text;
  partition text;
  is_there  boolean;
  missing   date[] := '{}';
begin
  perform pg_advisory_xact_lock(hashtext(current_schema() || '.deliveries'));
  for the_day in select today + n from generate_series(-days_back, days_ahead) as n loop
    continue when to_regclass('deliveries_' || to_char(the_day, 'YYYYMMDD')) is not null;
    -- Rows that went to a default partition stay there; the day cannot be split.
    select exists (select from deliveries_default where id >= first_id_of(the_day) and id < first_id_of(the_day + 1))
        or exists (select from payloads_default where id >= first_id_of(the_day) and id < first_id_of(the_day + 1))
        or exists (select from attempts_default where delivery_id >= first_id_of(the_day) and delivery_id < first_id_of(the_day + 1))
      into is_there;
    continue when is_there;
    foreach parent in array array['payloads', 'deliveries', 'attempts'] loop
      partition := parent || '_' || to_char(the_day, 'YYYYMMDD');
      -- `partition of` would lock everybody out while it makes the table and its indexes.
      execute format('create table %I (like %I including all) with (fillfactor = %s)', partition, parent,
        case parent when 'deliveries' then 85 else 100 end);
    end loop;
    missing := missing || the_day;
  end loop;
  if cardinality(missing) = 0 then
    return 0;
  end if;
  -- Attaching locks these anyway, one by one.
  perform lock_log('payloads_default, deliveries_default, attempts_default');
  foreach the_day in array missing loop
    foreach parent in array array['payloads', 'deliveries', 'attempts'] loop
      partition := parent || '_' || to_char(the_day, 'YYYYMMDD');
      execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, partition,
        first_id_of(the_day), first_id_of(the_day + 1));
      execute format('revoke all on %I from %I', partition, 'rms_' || current_schema());
    end loop;
  end loop;
  return cardinality(missing);
end
$$;

-- Drops whole days older than the log is kept, never one with a delivery that has not ended, or ended a short time ago.
create function drop_delivery_days(log_days integer) returns integer
language plpgsql security definer set search_path from current set lock_timeout = '500ms'
as $$
declare
  last_day date := (now() at time zone 'utc')::date - log_days;
  ended_before timestamptz := now() - log_days * interval '1 day';
  suffix   text;
  the_day  date;
  is_kept  boolean;
  past     text[] := '{}';
  dropped  integer := 0;
begin
  if log_days < 1 then
    raise exception 'the log is kept for at least one day';
  end if;
  perform pg_advisory_xact_lock(hashtext(current_schema() || '.deliveries'));
  for suffix in
    select right(c.relname, 8) from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'deliveries'::regclass and c.relname ~ '^deliveries_\d{8}$'
    order by 1
  loop
    the_day := to_date(suffix, 'YYYYMMDD');
    continue when the_day >= last_day;
    execute format('select exists (select from %I where ended is null or finished_at >= $1)', 'deliveries_' || suffix)
      into is_kept using ended_before;
    if not is_kept then
      past := past || suffix;
    end if;
  end loop;
  -- Events whose time is outside of all days.
  delete from deliveries_default where finished_at < ended_before;
  delete from attempts_default a where a.started_at < ended_before and not exists (
    select from deliveries_default d where d.shop_id = a.shop_id and d.id = a.delivery_id);
  delete from payloads_default p where p.created_at < ended_before and not exists (
    select from deliveries_default d where d.shop_id = p.shop_id and d.payload_id = p.id);
  if cardinality(past) = 0 then
    return 0;
  end if;
  -- Dropping a part locks the whole anyway, and everybody begins with that.
  perform lock_log('only payloads, only deliveries, only attempts');
  foreach suffix in array past loop
    the_day := to_date(suffix, 'YYYYMMDD');
    -- A replay may have begun before the lock; then it waits in the queue.
    continue when exists (select from queue where id >= first_id_of(the_day) and id < first_id_of(the_day + 1));
    execute format('drop table %I, %I, %I', 'attempts_' || suffix, 'deliveries_' || suffix, 'payloads_' || suffix);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;

revoke all on function lock_log(text), create_delivery_days(integer, integer), drop_delivery_days(integer) from public;

do $$
declare
  process text := 'rms_' || current_schema();
begin
  execute format('revoke all on payloads_default, deliveries_default, attempts_default from %I', process);
  execute format('revoke delete on payloads, deliveries, attempts from %I', process);
  execute format('grant execute on function create_delivery_days(integer, integer), drop_delivery_days(integer) to %I', process);
end
$$;

-- Replays and backfills, as requested. Their parts have the progress.
create table replay_jobs (
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  id              bigint generated always as identity (maxvalue 9007199254740991),
  kind            text not null check (kind in ('replay', 'backfill')),
  idempotency_key text not null check (char_length(idempotency_key) between 1 and 200),
  request_sha256  bytea not null check (octet_length(request_sha256) = 32),
  -- Which deliveries: rms.webhooks.v1.DeliveryFilter as JSON.
  filter          jsonb not null,
  started_at      timestamptz not null default now(),
  primary key (shop_id, id),
  constraint replay_jobs_once unique (shop_id, idempotency_key)
);
create index replay_jobs_by_time on replay_jobs (started_at);

-- What one job does for one subscription, batch by batch: each is one transaction with its cursor.
create table replay_parts (
  shop_id         bigint not null,
  job_id          bigint not null,
  subscription_id bigint not null check (subscription_id between 1 and 9007199254740991),
  state           text not null default 'running' check (state in ('running', 'done', 'cancelled', 'failed')),
  -- Where the next batch begins: after this delivery, or a cursor of the events; empty at first.
  cursor          text not null default '',
  total           integer not null check (total >= 0),
  done            integer not null default 0 check (done >= 0),
  skipped         integer not null default 0 check (skipped >= 0),
  error           text not null default '',
  -- When the next batch is due, or until when a running one is leased; by the clock of the database.
  next_at         timestamptz not null default now(),
  -- Of the last claim: a batch of an earlier one changes nothing.
  lease_token     bigint,
  -- Batches in a row that failed without an outage.
  failures        smallint not null default 0 check (failures >= 0),
  -- When it last had progress. A part that waits for too long fails.
  progress_at     timestamptz not null default now(),
  finished_at     timestamptz,
  primary key (shop_id, job_id, subscription_id),
  constraint replay_parts_job foreign key (shop_id, job_id) references replay_jobs (shop_id, id) on delete cascade,
  constraint replay_parts_finished check ((state = 'running') = (finished_at is null))
);
-- Of one subscription, one at a time.
create unique index replay_parts_alone on replay_parts (shop_id, subscription_id) where state = 'running';
create index replay_parts_due on replay_parts (next_at) where state = 'running';
create index replay_parts_of_subscription on replay_parts (shop_id, subscription_id, job_id desc);

-- The deliveries that a replay or a backfill has queued. The maintenance deletes them before their job.
create table job_deliveries (
  shop_id     bigint not null check (shop_id between 1 and 9007199254740991),
  job_id      bigint not null check (job_id between 1 and 9007199254740991),
  delivery_id uuid not null,
  primary key (shop_id, job_id, delivery_id),
  constraint job_deliveries_job foreign key (shop_id, job_id) references replay_jobs (shop_id, id) on delete cascade
);

select create_delivery_days(8, 3);
