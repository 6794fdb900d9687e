-- fits: 0.1.0
-- Where the effects of a shop's returns are requested: its commerce provider. A shop without a row has none of its own.
create table commerce_connections (
  shop_id          public_id primary key,
  adapter          text not null check (adapter in ('http')),
  url              text not null check (char_length(url) between 1 and 2048),
  connected_at     timestamptz(3) not null default now(),
  updated_at       timestamptz(3) not null default now()
);

-- What signs the requests to it, encrypted with COMMERCE_KEYRING.
create table commerce_secrets (
  shop_id          public_id not null references commerce_connections (shop_id) on delete cascade,
  id               bigint not null generated always as identity check (id between 1 and 9007199254740991),
  key_id           text not null check (char_length(key_id) between 1 and 50),
  sealed           bytea not null,
  created_at       timestamptz(3) not null default now(),
  -- Null for the newest one; an older one signs until this time.
  expires_at       timestamptz,
  primary key (shop_id, id)
);

-- Jobs that run, by shop: a shop has a limit.
create index processing_jobs_running on processing_jobs (shop_id) where state = 'running';

-- The comparison of a day's effects with those of the provider.
create table commerce_reconciliations (
  shop_id          public_id not null,
  -- In UTC.
  day              date not null,
  finished_at      timestamptz(3) not null default now(),
  compared         integer not null check (compared >= 0),
  differences      integer not null check (differences >= 0),
  primary key (shop_id, day)
);

-- What a reconciliation reads: the effects of a day, and effects by key.
create index processing_outcomes_done on processing_outcomes (shop_id, done_at);
create index processing_outcomes_by_key on processing_outcomes (shop_id, key);
create index commerce_ledger_made on commerce_ledger (shop_id, created_at);
-- Why the newest request did not succeed, for people.
alter table processing_outcomes
  add column problem text not null default '' check (char_length(problem) <= 500);

-- Effects with an unknown outcome.
create index processing_outcomes_unknown on processing_outcomes (shop_id)
  where asked_at is not null and done_at is null;
