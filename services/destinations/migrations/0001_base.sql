-- fits: 1.0.0
-- How many destinations a shop has. Its row is the lock under which destinations are created.
create table shop_quotas (
  shop_id      bigint primary key check (shop_id between 1 and 9007199254740991),
  destinations integer not null constraint destinations_quota check (destinations between 0 and 1000)
);

-- Ids are unique over all shops. provider_location_id is null while no location is linked.
create table destinations (
  shop_id              bigint not null references shop_quotas (shop_id),
  id                   bigint not null generated always as identity (maxvalue 999999999),
  name                 text not null check (char_length(name) between 1 and 191),
  type                 text not null check (type in ('warehouse', 'donate')),
  enabled              boolean not null,
  provider_location_id bigint check (provider_location_id between 1 and 9007199254740991),
  recipient            text not null check (char_length(recipient) <= 255),
  company              text not null check (char_length(company) <= 255),
  address1             text not null check (char_length(address1) <= 255),
  address2             text not null check (char_length(address2) <= 255),
  city                 text not null check (char_length(city) <= 255),
  state                text not null check (char_length(state) <= 255),
  zip                  text not null check (char_length(zip) <= 255),
  country              text not null check (char_length(country) <= 255),
  country_code         text not null check (country_code ~ '^([A-Z]{2})?$'),
  phone                text not null check (char_length(phone) <= 255),
  idempotency_key      text not null check (char_length(idempotency_key) between 1 and 200),
  request_hash         bytea not null check (length(request_hash) = 32),
  created_at           timestamptz not null default now(),
  updated_at           timestamptz not null default now(),
  primary key (shop_id, id),
  constraint destinations_id_once unique (id),
  constraint destinations_key_once unique (shop_id, idempotency_key)
);
