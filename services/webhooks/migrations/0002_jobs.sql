-- Replays and backfills, as asked for. What they are up to, their parts say.
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
  -- When the next batch is due, or until when the one under way is leased; by the database clock.
  next_at         timestamptz not null default now(),
  -- Of whoever claimed it last: the batch of one who was late is refused.
  lease_token     bigint,
  -- Batches in a row that failed through no outage.
  failures        smallint not null default 0 check (failures >= 0),
  -- When something last came of it; one that waits for too long is given up.
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
