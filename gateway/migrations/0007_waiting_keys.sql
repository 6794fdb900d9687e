-- fits: 1.0.0
-- The secret of an API key that waits for an owner, because it may do more than its maker. Until then `secret_hash` is
-- random, so that code of 1.0.0 rejects the key, too.
alter table api_keys add column waiting_secret_hash bytea
  constraint api_keys_waiting_hash_length check (octet_length(waiting_secret_hash) = 32);
