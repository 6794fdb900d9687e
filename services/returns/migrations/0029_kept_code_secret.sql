-- fits: 0.1.0
-- The secret for the codes of gift cards, encrypted, from the removal of the app to the next install. Otherwise it is in
-- `shopify_tokens`, where the previous release reads it.
alter table commerce_connections
  add column code_key_id text check (char_length(code_key_id) between 1 and 50),
  add column code_sealed bytea,
  add constraint commerce_connections_code check (num_nulls(code_key_id, code_sealed) in (0, 2));
