-- Calls of assistants' tools that came with an idempotency key: a repeat is told what the first was told.

create table tool_calls (
  shop_id         bigint not null references shops (id),
  user_id         bigint not null references users (id),
  idempotency_key text not null constraint tool_calls_key_length check (char_length(idempotency_key) between 1 and 200),
  tool            text not null constraint tool_calls_tool_length check (char_length(tool) between 1 and 100),
  request_hash    bytea not null constraint tool_calls_hash_length check (octet_length(request_hash) = 32),
  -- When it was last begun; in the past where its end is not known, so that a repeat may take it up.
  started_at      timestamptz not null default now(),
  -- What it was told; null until it has come to its end.
  answer          json,
  primary key (shop_id, user_id, idempotency_key)
);
create index tool_calls_started on tool_calls (started_at);
