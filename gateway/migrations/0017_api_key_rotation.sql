-- fits: 0.1.0
-- Who made a key, which key replaces it, and the call that made it, so that a repeat of the call makes no second key.
alter table api_keys
  add column created_by_kind text constraint api_keys_created_by_kind_length check (char_length(created_by_kind) <= 20),
  add column created_by_id text constraint api_keys_created_by_id_length check (char_length(created_by_id) <= 200),
  add column replaced_by text constraint api_keys_replaced_by_form check (replaced_by ~ '^[a-z0-9]{12}$'),
  add column creation_key text constraint api_keys_creation_key_length check (char_length(creation_key) between 1 and 200),
  add column creation_hash bytea constraint api_keys_creation_hash_length check (octet_length(creation_hash) = 32);
create unique index api_keys_creation on api_keys (shop_id, creation_key) where creation_key is not null;

-- Which credential called which version of the REST API on which day.
create table version_usage (
  shop_id         bigint not null references shops (id),
  credential_kind text not null constraint version_usage_kind_known check (credential_kind in ('api_key', 'partner_app')),
  credential_id   text not null constraint version_usage_credential_id_length check (char_length(credential_id) between 1 and 200),
  -- As in the path: `2026-07`, `v1`, `unstable`; empty when it was left out.
  requested       text not null constraint version_usage_requested_length check (char_length(requested) <= 20),
  day             date not null,
  requests        bigint not null,
  last_operation  text not null constraint version_usage_operation_length check (char_length(last_operation) <= 200),
  last_at         timestamptz not null,
  primary key (shop_id, credential_kind, credential_id, requested, day)
);
create index version_usage_day on version_usage (day);
