-- The version a shop's payloads are shaped for.
create table payload_versions (
  shop_id    bigint primary key check (shop_id between 1 and 9007199254740991),
  version    text not null check (version ~ '^\d{4}-\d{2}$'),
  updated_at timestamptz not null default now()
);

-- One row per address of a shop: what is in flight is counted, and held back, here. Locked by
-- whoever claims for it. The hash stands in for the address, which may be too long for an index.
create table endpoints (
  shop_id    bigint not null check (shop_id between 1 and 9007199254740991),
  id         bigint generated always as identity (maxvalue 9007199254740991),
  url        text not null,
  url_sha256 bytea not null check (octet_length(url_sha256) = 32),
  -- Most deliveries in flight: halved on timeouts, grown on success.
  flight_cap smallint not null default 8 check (flight_cap between 1 and 8),
  created_at timestamptz not null default now(),
  primary key (shop_id, id),
  constraint endpoints_once unique (shop_id, url_sha256)
);

create table subscriptions (
  shop_id         bigint not null,
  id              bigint generated always as identity (maxvalue 999999999),
  topic           text not null check (char_length(topic) between 1 and 100),
  trigger         text not null check (char_length(trigger) between 1 and 100),
  endpoint_id     bigint not null,
  status          text not null check (status in ('active', 'inactive')),
  inactive_reason text not null default '',
  -- Failures since the last success, and when they began (by the retry clock).
  failures        integer not null default 0 check (failures >= 0),
  failing_since   timestamptz,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  -- Kept for the log of its deliveries until that is purged.
  deleted_at      timestamptz,
  primary key (shop_id, id),
  constraint subscriptions_endpoint foreign key (shop_id, endpoint_id) references endpoints (shop_id, id)
);
create index subscriptions_by_trigger on subscriptions (shop_id, trigger) where deleted_at is null;
create index subscriptions_by_endpoint on subscriptions (shop_id, endpoint_id);

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

-- The bytes sent, once per event, topic and version, however many subscriptions get them.
create table payloads (
  shop_id     bigint not null,
  id          bigint generated always as identity (maxvalue 9007199254740991),
  event_id    uuid not null,
  topic       text not null,
  api_version text not null,
  return_id   bigint,
  -- Null once its retention is over or its customer was redacted.
  body        bytea,
  redacted_at timestamptz,
  created_at  timestamptz not null default now(),
  primary key (shop_id, id),
  constraint payloads_once unique (shop_id, event_id, topic, api_version)
);
create index payloads_by_time on payloads (created_at);
create index payloads_by_return on payloads (shop_id, return_id) where return_id is not null;

create sequence delivery_leases;

create table deliveries (
  shop_id          bigint not null,
  -- `webhook-id` without its prefix.
  id               uuid not null,
  -- Order of fan-out within a shop: newest first is how the log is read.
  position         bigint generated always as identity (maxvalue 9007199254740991),
  subscription_id  bigint not null,
  endpoint_id      bigint not null,
  payload_id       bigint not null,
  event_id         uuid not null,
  trigger          text not null,
  topic            text not null,
  api_version      text not null,
  return_id        bigint,
  revision         bigint not null default 0,
  traceparent      text not null default '',
  is_test          boolean not null default false,
  state            text not null default 'waiting'
    check (state in ('waiting', 'held', 'delivered', 'exhausted', 'expired', 'dropped')),
  -- By the retry clock.
  next_attempt_at  timestamptz,
  held_since       timestamptz,
  -- All attempts ever, and those since it was last started (a replay starts anew).
  attempts         integer not null default 0 check (attempts >= 0),
  round_attempts   integer not null default 0 check (round_attempts >= 0),
  -- By the database clock. The token fences off a sender that lost its lease.
  lease_token      bigint,
  lease_expires_at timestamptz,
  created_at       timestamptz not null default now(),
  finished_at      timestamptz,
  primary key (shop_id, id),
  constraint deliveries_once unique (shop_id, event_id, subscription_id),
  constraint deliveries_subscription foreign key (shop_id, subscription_id) references subscriptions (shop_id, id),
  constraint deliveries_endpoint foreign key (shop_id, endpoint_id) references endpoints (shop_id, id),
  constraint deliveries_payload foreign key (shop_id, payload_id) references payloads (shop_id, id),
  constraint deliveries_lease check ((lease_token is null) = (lease_expires_at is null)),
  constraint deliveries_due_has_time check (state <> 'waiting' or next_attempt_at is not null),
  constraint deliveries_held_has_time check ((state = 'held') = (held_since is not null)),
  constraint deliveries_finished check ((state in ('waiting', 'held')) = (finished_at is null))
) with (fillfactor = 80);

-- What may be claimed, per endpoint: fresh ones first, then retries by time.
create index deliveries_due on deliveries (shop_id, endpoint_id, (round_attempts > 0), next_attempt_at, position)
  where state = 'waiting' and lease_token is null;
create index deliveries_leased on deliveries (shop_id, endpoint_id) where lease_token is not null;
create index deliveries_lease_end on deliveries (lease_expires_at) where lease_token is not null;
create index deliveries_unfinished on deliveries (shop_id, subscription_id) where finished_at is null;
create index deliveries_held on deliveries (held_since) where state = 'held';
create index deliveries_finished on deliveries (finished_at) where finished_at is not null;
create index deliveries_log on deliveries (shop_id, position desc);
create index deliveries_log_of_subscription on deliveries (shop_id, subscription_id, position desc);
create index deliveries_by_payload on deliveries (shop_id, payload_id);
create index deliveries_by_return on deliveries (shop_id, return_id) where return_id is not null;
create index deliveries_by_endpoint on deliveries (shop_id, endpoint_id);

-- The log: one row per request made.
create table attempts (
  shop_id          bigint not null,
  delivery_id      uuid not null,
  number           integer not null check (number > 0),
  started_at       timestamptz not null,
  duration_ms      integer not null check (duration_ms >= 0),
  -- 0: no answer.
  status           integer not null check (status between 0 and 999),
  error            text not null,
  url              text not null,
  request_headers  jsonb not null,
  response_excerpt text not null,
  primary key (shop_id, delivery_id, number),
  constraint attempts_delivery foreign key (shop_id, delivery_id) references deliveries (shop_id, id)
    on delete cascade
);

-- Returns whose customer was redacted: an event that arrives late must not bring the data back.
create table redacted_returns (
  shop_id     bigint not null,
  return_id   bigint not null,
  redacted_at timestamptz not null default now(),
  primary key (shop_id, return_id)
);
