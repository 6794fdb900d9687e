-- fits: 1.0.0
-- What a caller's key was used for: a repeat with the same content changes nothing more. Removed after 90 days.
create table idempotency_keys (
  shop_id      bigint not null check (shop_id between 1 and 9007199254740991),
  operation    text not null check (char_length(operation) between 1 and 60),
  key          text not null check (char_length(key) between 1 and 200),
  request_hash bytea not null,
  -- The object that was changed.
  result_id    bigint not null check (result_id between 1 and 9007199254740991),
  created_at   timestamptz(3) not null default now(),
  constraint idempotency_keys_once primary key (shop_id, operation, key)
);
create index idempotency_keys_by_time on idempotency_keys (created_at);
