-- Processing: jobs, what they did at the commerce provider, instant refunds, and the embedded
-- commerce provider's own books.

-- One row per run. `due_at` is when a worker may take the job: the next try of a queued one, the end
-- of the lease of a running one.
create sequence processing_tokens;

create table processing_jobs (
  shop_id          public_id not null,
  id               bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id        public_id not null,
  state            text not null default 'queued' check (state in ('queued', 'running', 'done', 'failed')),
  details          json not null,
  source           text not null check (char_length(source) <= 50),
  actor            bytea not null,
  traceparent      text not null,
  queued_at        timestamptz(3) not null default now(),
  due_at           timestamptz not null default now(),
  -- When the provider first failed; passing failures are final some minutes after.
  failing_since    timestamptz,
  failures         integer not null default 0 check (failures >= 0),
  -- Grows with every claim: a worker whose token is no longer here has lost the job.
  lease_token      bigint,
  finished_at      timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint processing_jobs_finished check ((state in ('done', 'failed')) = (finished_at is not null)),
  constraint processing_jobs_leased check (state <> 'running' or lease_token is not null)
);

create unique index processing_jobs_one_live on processing_jobs (shop_id, return_id)
  where state in ('queued', 'running');
create index processing_jobs_due on processing_jobs (due_at) where state in ('queued', 'running');
create index processing_jobs_finished on processing_jobs (finished_at) where state in ('done', 'failed');

-- What processing wants from the commerce provider for a return, kept over all runs. A row without
-- `done_at` is an intent: whether it took effect is known only to the provider, by the key.
create table processing_outcomes (
  shop_id          public_id not null,
  return_id        public_id not null,
  kind             text not null check (kind in ('exchange_order', 'gift_card', 'refund')),
  key              text not null check (char_length(key) between 1 and 200),
  amount           amount not null check (amount > 0),
  currency         currency_code not null,
  intended_at      timestamptz(3) not null default now(),
  done_at          timestamptz(3),
  -- What the provider answered: an order or a refund.
  provider_id      text check (char_length(provider_id) between 1 and 191),
  name             text check (char_length(name) <= 191),
  gateway          text check (char_length(gateway) <= 191),
  provider         text check (char_length(provider) <= 191),
  provider_created_at timestamptz(3),
  -- Set once the details of the return show it.
  shown_at         timestamptz(3),
  primary key (shop_id, return_id, kind, key),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint processing_outcomes_done check ((done_at is null) = (provider_id is null))
);

create table gift_card_requests (
  shop_id          public_id not null,
  id               bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id        public_id not null,
  amount           amount not null check (amount > 0),
  currency         currency_code not null,
  requested_at     timestamptz(3) not null default now(),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint gift_card_requests_one unique (shop_id, return_id)
);

create table instant_refunds (
  shop_id          public_id not null,
  id               bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id        public_id not null,
  amount           amount not null check (amount > 0),
  currency         currency_code not null,
  charge_reference text not null check (char_length(charge_reference) <= 191),
  state            text not null default 'open' check (state in ('open', 'returned', 'charged', 'charge_failed')),
  created_at       timestamptz(3) not null default now(),
  settled_at       timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint instant_refunds_settled check ((state = 'open') = (settled_at is null))
);

create unique index instant_refunds_one_open on instant_refunds (shop_id, return_id) where state = 'open';
create index instant_refunds_return on instant_refunds (shop_id, return_id);

-- What the expiry sweep reads.
create index returns_live on returns (shop_id, id) where state in ('open', 'review');

-- The embedded commerce provider: a world of its own, without foreign keys into ours.
create sequence commerce_ids minvalue 1000000000000 maxvalue 9007199254740991;

create table commerce_ledger (
  shop_id          public_id not null,
  idempotency_key  text not null check (char_length(idempotency_key) between 1 and 200),
  provider_id      public_id not null unique default nextval('commerce_ids'),
  return_id        public_id not null,
  kind             text not null check (kind in ('exchange_order', 'gift_card', 'refund')),
  name             text not null,
  amount           amount not null check (amount > 0),
  currency         currency_code not null,
  calls            integer not null default 1,
  items            json not null,
  additional_details json not null,
  created_at       timestamptz(3) not null default now(),
  primary key (shop_id, idempotency_key)
);

create index commerce_ledger_return on commerce_ledger (shop_id, return_id);

create table commerce_failures (
  shop_id          public_id not null,
  return_id        public_id not null,
  kind             text not null check (kind in ('passing', 'final')),
  remaining        integer not null check (remaining >= 0),
  primary key (shop_id, return_id)
);
